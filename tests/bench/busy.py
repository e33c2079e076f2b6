"""`busy`: one stream while a foreign process burns a core."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.figures import Answer, Figures, figures_of
from tests.bench.target import Target, ask_whole
from tests.bench.workloads import Sizes, chat

BURNER = "import time\nwhile time.monotonic() < {end_ts}: pass"
BURNER_EXTRA_S = 60.0  # after that it ends by itself, whatever became of us
SETTLED_TOKENS = 4


@contextmanager
def burner(seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """One process that always wants to run; gone when the block is left."""
    code = BURNER.format(end_ts=time.monotonic() + seconds + BURNER_EXTRA_S)
    process = subprocess.Popen([sys.executable, "-I", "-S", "-c", code])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def run(target: Target, seed: str, sizes: Sizes) -> Figures:
    """One answer, which counts as far as it has come after `sizes.busy_s` (a delta is a token
    then): a decode whose threads wait for each other may hardly go on at all."""
    started_ts = time.perf_counter()
    times: list[float] = []
    messages = chat("distinct", seed, 0)
    was_cut = False
    with burner(sizes.busy_s):
        try:
            async with asyncio.timeout(sizes.busy_s):
                answer = await ask_whole(
                    target,
                    messages,
                    sizes.max_tokens,
                    lambda: times.append(time.perf_counter() - started_ts),
                )
        except TimeoutError:
            was_cut = True
            times = times or [sizes.busy_s]  # as if the first came at the end
            answer = Answer(tuple(times), len(times), 0, "", started_ts)
        wall_s = time.perf_counter() - started_ts
    if was_cut:  # when the next answer is there, this one is gone
        await ask_whole(target, messages, SETTLED_TOKENS)
    return figures_of([answer], wall_s)
