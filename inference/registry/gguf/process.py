"""Headers are read in a child of their own, with bounds on time and memory: whatever a file does
to the reader, it does to nobody else.

The parent opens the file and hands it over as the child's standard input; the child can open
nothing, and answers once on its standard output, in JSON. It imports the standard library only.
"""

from __future__ import annotations

import json
import os
import select
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.facts import GgufFacts, facts_from_plain
from inference.registry.gguf.header import GgufHeader
from llamaweb.lib.errors import FailedError

READ_TIMEOUT_S: Final = 20.0
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024  # templates, escaped
_CHILD: Final = Path(__file__).with_name("child.py")


def read_header(path: Path) -> GgufHeader:
    """Read and check the header of the file at `path`, which may be no link.

    Raises:
        GgufError: not a GGUF file, damaged, cut off, or too much work to read.
        FailedError: the child couldn't be started.
        OSError: the file can't be opened.
    """
    # Not blocking: whoever opens a pipe waits for its other end.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    descriptor = os.open(path, flags)
    try:
        return read_descriptor(descriptor)
    finally:
        os.close(descriptor)


def read_descriptor(descriptor: int, *, timeout_s: float = READ_TIMEOUT_S) -> GgufHeader:
    """As `read_header`, of an open file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise GgufError("this is not a regular file")
    answer = _ask(descriptor, timeout_s)
    if "invalid" in answer:
        raise GgufError(str(answer["invalid"]))
    facts, templates = facts_from_plain(answer.get("facts")), answer.get("templates")
    if not isinstance(facts, GgufFacts) or not isinstance(templates, dict):
        raise FailedError("the process that reads model files answered nonsense")
    return GgufHeader(facts, {str(name): str(text) for name, text in templates.items()})


def _ask(descriptor: int, timeout_s: float) -> dict[str, Any]:
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_CHILD)],
            stdin=descriptor,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            close_fds=True,
            bufsize=0,
        )
    except OSError as error:
        raise FailedError("the process that reads model files didn't start") from error
    assert child.stdout is not None
    try:
        data = _receive(child.stdout.fileno(), time.monotonic() + timeout_s)
    except TimeoutError:
        raise GgufError(f"reading the header takes longer than {timeout_s:g} s") from None
    finally:
        child.kill()
        child.stdout.close()
        child.wait()
    try:
        answer = json.loads(data)
    except ValueError:
        raise GgufError("the header needs too much memory or time to be read") from None
    return answer if isinstance(answer, dict) else {}


def _receive(descriptor: int, ends_ts: float) -> bytes:
    """All that the child writes, no more than it may."""
    pieces: list[bytes] = []
    left = MAX_ANSWER_BYTES
    poller = select.poll()  # select() would fail above 1,024 open files
    poller.register(descriptor, select.POLLIN)
    while left > 0:
        if not poller.poll(max(0.0, ends_ts - time.monotonic()) * 1000):
            raise TimeoutError
        piece = os.read(descriptor, min(left, 1 << 20))
        if not piece:
            break
        left -= len(piece)
        pieces.append(piece)
    return b"".join(pieces)
