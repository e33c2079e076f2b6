"""The models that are measured; both come from PyPI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inference.engine.starter import find_starter_model
from tests.bench.figures import BenchError
from tests.gemma import GemmaMissingError, find_gemma


@dataclass(frozen=True, slots=True)
class BenchModel:
    """`has_template`: it brings a chat template of its own."""

    name: str
    title: str
    has_template: bool
    find: Callable[[], Path | None]

    def path(self) -> Path:
        """Its GGUF; raises BenchError when its package isn't installed."""
        try:
            path = self.find()
        except GemmaMissingError as error:
            raise BenchError(str(error)) from error
        if path is None:
            raise BenchError(f"the package of {self.title} isn't installed")
        return path


MODELS = {
    model.name: model
    for model in (
        BenchModel("smollm2", "SmolLM2 135M Instruct, Q4_1", True, find_starter_model),
        BenchModel("gemma", "Gemma 3 270M, Q4_K_M", False, find_gemma),
    )
}


def parse_models(text: str) -> Sequence[BenchModel]:
    """Names separated by commas; raises ValueError on another name."""
    unknown = set(text.split(",")) - set(MODELS)
    if unknown:
        raise ValueError(f"no model {sorted(unknown)}; there are {', '.join(MODELS)}")
    return [MODELS[name] for name in text.split(",")]
