"""From a model config to what its engine is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inference.models import ModelConfig, ModelFile
from inference.protocol.spec import AdapterSpec, decode_spec, encode_spec
from inference.supervisor.specs import Tuning, engine_spec
from llamaweb.lib.errors import FailedError


def test_adapters_and_special_tokens_reach_the_engine() -> None:
    config = ModelConfig(name="m", engine_class="mock")
    spec = engine_spec(config, redis_url="", tuning=Tuning())
    assert (spec.adapters, spec.special_tokens) == ((), False)
    config.special_tokens = True
    config.adapters = [
        {"path": "/x/a.gguf", "scale": 0.5, "name": "a"},
        {"path": "/x/b.gguf", "scale": 0.0, "name": ""},
    ]
    spec = engine_spec(config, redis_url="", tuning=Tuning())
    assert spec.special_tokens
    assert spec.adapters == (AdapterSpec("/x/a.gguf", 0.5, "a"), AdapterSpec("/x/b.gguf", 0.0))
    assert decode_spec(encode_spec(spec)) == spec


def test_shares_of_gpus_reach_the_engine() -> None:
    config = ModelConfig(name="m", engine_class="mock", tensor_split=[1, 2])
    assert engine_spec(config, redis_url="", tuning=Tuning()).tensor_split == (1.0, 2.0)
    config.tensor_split = []
    assert engine_spec(config, redis_url="", tuning=Tuning()).tensor_split == ()
    spec = engine_spec(config, redis_url="", tuning=Tuning(), shares=(3, 4))
    assert spec.tensor_split == (3.0, 4.0)


def test_only_engine_classes_that_the_environment_names_start(settings: Any) -> None:
    config = ModelConfig(name="m", engine_class="mine.engine.build")
    with pytest.raises(FailedError, match="isn't among LLAMAWEB_ENGINE_CLASSES"):
        engine_spec(config, redis_url="", tuning=Tuning())
    settings.ENGINE_CLASSES = ("mine.engine.build",)
    spec = engine_spec(config, redis_url="", tuning=Tuning())
    assert spec.engine_class == "mine.engine.build"


@pytest.mark.parametrize(
    ("purpose", "pooling", "expected"),
    [
        ("text", "auto", "auto"),
        ("text", "last", "last"),
        ("embedding", "cls", "cls"),
        ("reranking", "auto", "rank"),
        ("reranking", "rank", "rank"),
    ],
)
def test_poolings_and_norms_reach_the_engine(
    monkeypatch: pytest.MonkeyPatch, purpose: str, pooling: str, expected: str
) -> None:
    monkeypatch.setattr("inference.supervisor.specs.loadable_path", lambda file: Path(file.path))
    file = ModelFile(path="/x/m.gguf", facts={"purpose": purpose})
    config = ModelConfig(name="m", engine_class="mock", file=file, pooling=pooling, vector_norm=1)
    spec = engine_spec(config, redis_url="", tuning=Tuning())
    assert (spec.pooling, spec.vector_norm) == (expected, 1)
    assert decode_spec(encode_spec(spec)) == spec
