"""`python -m inference.worker.devices`: writes what llama.cpp can compute on here as one line on
standard output, and ends, so that no driver lives in the process that wants to know. Its standard
input is the id of that process, with whose end it ends; nothing: nobody's."""

from __future__ import annotations

import logging
import os
import sys

from inference.protocol.devices import encode_devices
from inference.worker.limits import OrphanedError, harden


def main() -> int:
    """Ask and answer; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
        try:
            harden(int(sys.stdin.readline() or 0))
        except OrphanedError:
            return 1
        # Only here: this module must be importable where the library isn't built.
        from inference.engine.llama_devices import list_devices

        print(encode_devices(list_devices()), file=answer, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
