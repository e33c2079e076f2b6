"""`python -m inference.worker.trial`: reads a TrialOrder as JSON on standard input, tries the model
and writes a TrialReport as one line on standard output.

Exit codes as those of an engine. What a CPU can't execute kills this process instead of an engine.
"""

from __future__ import annotations

import logging
import os
import signal
import sys

from inference.protocol.codec import DecodeError
from inference.protocol.spec import EXIT_UNSERVABLE
from inference.protocol.trial import decode_order, encode_line
from inference.worker.limits import OrphanedError, harden
from llamaweb.lib.errors import FailedError, InvalidError


def main() -> int:
    """Carry out one order; returns the exit code."""
    logging.basicConfig(
        level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches the manager
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no report
        try:
            order = decode_order(sys.stdin.buffer.read())
            harden(order.spec.parent_pid)
            # Only here: this module must be importable where the library isn't built.
            from inference.engine.llama_trial import run_trial

            print(encode_line(run_trial(order)), file=answer, flush=True)
        except (DecodeError, InvalidError, FailedError) as error:
            print(f"FATAL {error}", file=sys.stderr, flush=True)
            return EXIT_UNSERVABLE
        except OrphanedError:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
