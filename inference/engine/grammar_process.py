"""Grammars are compiled in a child first, which is killed where that takes more than its bounds of
time and memory: the compiler counts its steps, but not what each of them copies. What the child
could compile costs no more in this process.

The first message (`child_pipe`) is the vocabulary; the child answers `{"awake": true}`, then each
job with `{"begun": true}` and its outcome.
"""

from __future__ import annotations

import functools
import json
import resource
import signal
import subprocess
import threading
import weakref
from pathlib import Path
from typing import Any

from llguidance import LLMatcher

from inference.engine.matchers import Words, make_matcher, problem_of
from inference.text import child_pipe
from inference.text.child_pipe import ChildDiedError
from llamaweb.lib.errors import FailedError

COMPILE_S = 2.0  # of CPU
COMPILE_BYTES = 64 * 1024 * 1024  # beside the vocabulary and the interpreter
TOO_MUCH = f"compiling it takes more than {COMPILE_S:g} s or {COMPILE_BYTES >> 20} MiB"
WAIT_S = 20.0  # for those seconds of CPU, on a busy machine
START_TIMEOUT_S = 60.0


class GrammarProcess:
    """Compiles grammars for one vocabulary in one child, started when first needed and again after
    a kill. Safe to call from several threads; jobs run one after the other."""

    def __init__(
        self, words: Words, compile_s: float = COMPILE_S, compile_bytes: int = COMPILE_BYTES
    ) -> None:
        self._words = words
        self._bounds = {"seconds": compile_s, "bytes": compile_bytes}
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._end: weakref.finalize[..., Any] | None = None

    def problem(self, source: str) -> str:
        """As `problem_of` its matcher, or `TOO_MUCH`.

        Raises:
            FailedError: no child could be started.
        """
        body = json.dumps({"source": source}).encode()
        with self._lock:
            for _ in range(2):  # a child left over from earlier jobs may have died since
                child = self._child or self._start()
                has_begun = False
                try:
                    child_pipe.send(child.stdin, body, WAIT_S)
                    child_pipe.receive(child.stdout, WAIT_S)
                    has_begun = True
                    return str(child_pipe.receive(child.stdout, WAIT_S)["problem"])
                except (ChildDiedError, TimeoutError):
                    self._kill()
                    if has_begun:
                        return TOO_MUCH
        raise FailedError("the process that compiles grammars ended")

    def close(self) -> None:
        """End the child; a later job starts a new one."""
        with self._lock:
            self._kill()

    def _start(self) -> subprocess.Popen[bytes]:
        child = child_pipe.start(
            "inference.engine.grammar_process",
            MALLOC_ARENA_MAX="1",  # each is 64 MiB of address space
        )
        self._child, self._end = child, weakref.finalize(self, child_pipe.end, child)
        words = self._words
        hello = {
            "pieces": [piece.decode("latin-1") for piece in words.pieces],
            "specials": list(words.specials),
            "ends": list(words.ends),
            **self._bounds,
        }
        try:
            child_pipe.send(child.stdin, json.dumps(hello).encode(), START_TIMEOUT_S)
            child_pipe.receive(child.stdout, START_TIMEOUT_S)
        except (ChildDiedError, TimeoutError) as error:
            self._kill()
            raise FailedError("the process that compiles grammars didn't start") from error
        return child

    def _kill(self) -> None:
        self._child = None
        if self._end is not None:
            self._end()


@functools.lru_cache(4)
def grammar_process(words: Words) -> GrammarProcess:
    """The one for these words."""
    return GrammarProcess(words)


# --- the child


def main() -> None:
    """Serve the parent on standard input and output until either ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    hello = child_pipe.next_message()
    if hello is None:
        return
    pieces = [piece.encode("latin-1") for piece in hello["pieces"]]
    by_byte = {piece: token for token, piece in enumerate(pieces) if len(piece) == 1}

    def spell(data: bytes) -> list[int]:
        return [by_byte[bytes((byte,))] for byte in data if bytes((byte,)) in by_byte]

    words = Words(pieces, hello["specials"], hello["ends"], spell).index()
    problem_of(make_matcher(LLMatcher.grammar_from_json_schema("{}"), words))  # warm
    used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + hello["bytes"], used + hello["bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    child_pipe.answer({"awake": True})
    while (message := child_pipe.next_message()) is not None:
        child_pipe.answer({"begun": True})
        signal.setitimer(signal.ITIMER_PROF, hello["seconds"])  # its signal ends the process
        problem = problem_of(make_matcher(message["source"], words))
        signal.setitimer(signal.ITIMER_PROF, 0)
        child_pipe.answer({"problem": problem})


if __name__ == "__main__":
    main()
