"""llama.cpp's log through `logging`, quiet unless something is wrong."""

from __future__ import annotations

import contextlib
import ctypes
import logging
from collections.abc import Iterator
from typing import Any

import llama_cpp

logger = logging.getLogger("llama.cpp")

# ggml's levels; CONTINUE (5) goes on with the line before and has that line's level.
_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.INFO, 4: logging.WARNING}
_CONTINUE = 5
_last_level = logging.DEBUG
_heard: list[list[str]] = []  # of those who listen now


@llama_cpp.llama_log_callback  # type: ignore[untyped-decorator]
def _log(level: int, text: bytes, _: Any) -> None:
    global _last_level
    if level != _CONTINUE:
        _last_level = _LEVELS.get(level, logging.DEBUG)
    line = text.decode("utf-8", "replace").strip()
    if line and line != ".":
        logger.log(_last_level, "%s", line)
        if _last_level == logging.WARNING:
            for lines in _heard:
                lines.append(line)


def quiet_log() -> None:
    """Send llama.cpp's messages to the logger "llama.cpp"; errors become warnings there."""
    llama_cpp.llama_log_set(_log, ctypes.c_void_p(0))


@contextlib.contextmanager
def errors_heard() -> Iterator[list[str]]:
    """The lines in which llama.cpp says what went wrong meanwhile: its calls say only that it did.
    Of other threads too, so this is for a time when nothing else runs."""
    lines: list[str] = []
    _heard.append(lines)
    try:
        yield lines
    finally:
        _heard.remove(lines)
