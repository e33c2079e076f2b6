"""The queue's scripts: `prelude.lua` stands before each of the others."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Script:
    """Text for EVAL and its digest for EVALSHA."""

    text: str
    sha: str


@functools.cache
def script(name: str) -> Script:
    """The script of that name, without extension."""
    text = "\n".join((_FOLDER / f"{part}.lua").read_text("utf-8") for part in ("prelude", name))
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
