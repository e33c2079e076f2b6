"""The queue's scripts: `prelude.lua` stands before each that touches a queue."""

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
    return _made("prelude", name)


@functools.cache
def plain_script(name: str) -> Script:
    """One that touches no queue and stands alone."""
    return _made(name)


def _made(*parts: str) -> Script:
    text = "\n".join((_FOLDER / f"{part}.lua").read_text("utf-8") for part in parts)
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
