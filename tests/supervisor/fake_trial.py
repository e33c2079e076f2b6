"""A trial child for tests: behaves as the model's name in its order says."""

from __future__ import annotations

import os
import signal
import sys
import time

from inference.protocol.spec import EXIT_UNSERVABLE
from inference.protocol.trial import (
    Choice,
    Measured,
    Rates,
    TrialReport,
    decode_order,
    encode_line,
)

DEFAULT = Choice(threads=1, flash_attention="off", kv_unified=False, ubatch_len=512)
CHOICE = Choice(threads=2, flash_attention="on", kv_unified=True, ubatch_len=1024)


def main() -> int:
    order = decode_order(sys.stdin.buffer.read())
    kind = order.spec.model
    if kind == "illegal" and order.spec.use_extra_bufts:
        os.kill(os.getpid(), signal.SIGILL)
    if kind == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    if kind == "damaged":
        print("FATAL model file 'x.gguf' is damaged", file=sys.stderr)
        return EXIT_UNSERVABLE
    if kind == "hangs":
        time.sleep(60)
    if kind == "mumbles":
        print("no report")
        return 0
    measured = Measured(DEFAULT, CHOICE, Rates(100, 10, 30), Rates(150, 20, 60))
    print(encode_line(TrialReport(measured if order.open else None)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
