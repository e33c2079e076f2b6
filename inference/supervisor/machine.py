"""What names this machine together with the llama.cpp that is built for it."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from llamaweb.lib.machine import read_hardware

PACKAGE, DISTRIBUTION = "llama_cpp", "llama_cpp_python"


@dataclass(frozen=True, slots=True)
class Machine:
    """`key` changes with the processor, the cores that may be used, and each build of the library;
    `name` is for people."""

    key: str
    name: str


@functools.cache
def this_machine() -> Machine:
    """Looked at once a process."""
    hardware = read_hardware()
    text = repr((hardware, library_digest()))
    return Machine(hashlib.sha256(text.encode()).hexdigest(), hardware.title)


def library_digest() -> str:
    """Names the installed library: its version and what was built, without loading it; "" where
    there is none."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        return ""
    digest = hashlib.sha256(importlib.metadata.version(DISTRIBUTION).encode())
    for folder in spec.submodule_search_locations or ():
        for path in sorted((Path(folder) / "lib").glob("lib*.so")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
