"""The child of `process`: reads the header of the file that is its standard input.

Run by its path with -I -S, so that it starts in milliseconds and finds nothing but this tree.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path

MEMORY_BYTES = 256 * 1024 * 1024
CPU_S = 10
_PR_SET_PDEATHSIG = 1
_ROOT = Path(__file__).resolve().parents[3]


def main() -> None:
    """Answer once: `{"facts": …, "templates": …}` or `{"invalid": why}`."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    sys.path.insert(0, str(_ROOT))
    from inference.registry.gguf.facts import facts_to_plain
    from inference.registry.gguf.header import read_stream
    from llamaweb.lib.errors import InvalidError

    _limit()
    answer: dict[str, object]
    try:
        header = read_stream(0, os.fstat(0).st_size)
        answer = {"facts": facts_to_plain(header.facts), "templates": header.templates}
    except InvalidError as error:
        answer = {"invalid": error.message}
    except OSError as error:
        answer = {"invalid": f"the file can't be read: {error.strerror}"}
    except MemoryError:
        answer = {"invalid": "the header needs too much memory to be read"}
    _write(json.dumps(answer).encode())


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    # No further file or socket: the three standard ones are open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


if __name__ == "__main__":
    main()
