"""`python -m inference.worker`: reads an EngineSpec as JSON on standard input, then serves.

Exit codes: 0 drained; 3 the model can't be served as configured (trying again won't help);
anything else is a crash.
"""

from __future__ import annotations

import logging
import sys

from inference.protocol.codec import DecodeError
from inference.protocol.spec import decode_spec
from inference.worker.limits import OrphanedError, harden
from inference.worker.main import Worker
from llamaweb.lib.errors import FailedError, InvalidError

EXIT_UNSERVABLE = 3


def main() -> int:
    """Run one engine process; returns its exit code."""
    logging.basicConfig(
        level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        spec = decode_spec(sys.stdin.buffer.read())
        harden(spec.parent_pid)
        Worker(spec).run()
    except (DecodeError, InvalidError, FailedError) as error:
        print(f"FATAL {error}", file=sys.stderr, flush=True)
        return EXIT_UNSERVABLE
    except OrphanedError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
