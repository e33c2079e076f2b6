"""`python -m inference.worker`: reads an EngineSpec as JSON on standard input, then serves.

Exit codes: 0 drained; 3 the model can't be served as configured (trying again won't help);
anything else is a crash.
"""

from __future__ import annotations

import logging
import signal
import sys

from inference.protocol.codec import DecodeError
from inference.protocol.spec import EXIT_UNSERVABLE, decode_spec
from inference.queues.connect import sync_client
from inference.queues.redis_queue import RedisQueue
from inference.worker.limits import OrphanedError, harden
from inference.worker.main import Worker, queue_config
from llamaweb.lib.errors import FailedError, InvalidError


def main() -> int:
    """Run one engine process; returns its exit code."""
    logging.basicConfig(
        level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        spec = decode_spec(sys.stdin.buffer.read())
        harden(spec.parent_pid)
        config = queue_config(spec)
        queue = RedisQueue(sync_client(spec.redis_url), spec.redis_prefix, config)
        worker = Worker(spec, queue, config)
        signal.signal(signal.SIGTERM, lambda *_: worker.drain())
        signal.signal(signal.SIGUSR1, lambda *_: worker.drain(patient=True))
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches the manager
        worker.serve()
    except (DecodeError, InvalidError, FailedError) as error:
        print(f"FATAL {error}", file=sys.stderr, flush=True)
        return EXIT_UNSERVABLE
    except OrphanedError:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
