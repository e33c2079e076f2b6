"""`python -m tests.bench steps`: Python time of an engine step, without llama.cpp and the argmax.

CPU time of the stepping thread, so that other processes on the machine disturb it little.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from inference.engine.contract import SequenceRequest
from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.spec import EngineSpec
from inference.text.tokenizer import Tokenizer
from tests.bench.workloads import chat
from tests.generated import table

NUM_TOKENS = 150
WARM_STEPS = 20
US = 1e-3  # of a nanosecond


@dataclass(frozen=True, slots=True)
class StepCost:
    """Medians over the decode-only steps, microseconds of CPU: our Python, and the sampling."""

    streams: int
    steps: int
    python_us: float
    pick_us: float
    wall_ms: float


class _Meter:
    """Adds up the CPU time of the functions it wraps."""

    def __init__(self) -> None:
        self.spent_ns = 0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            started_ns = time.thread_time_ns()
            try:
                return function(*args)
            finally:
                self.spent_ns += time.thread_time_ns() - started_ns

        return timed


def measure(spec: EngineSpec, streams: tuple[int, ...], seed: str) -> list[StepCost]:
    """Step an engine of its own with 1 or more streams."""
    engine, tokenizer = build_engine(spec)
    assert isinstance(engine, Engine)
    try:
        return [_measure(engine, tokenizer, num, f"{seed}/{num}") for num in streams]
    finally:
        engine.close()


def render(costs: Sequence[StepCost]) -> str:
    """The result as Markdown."""
    rows = [
        [str(c.streams), str(c.steps), f"{c.python_us:.0f}", f"{c.pick_us:.0f}", f"{c.wall_ms:.1f}"]
        for c in costs
    ]
    return table(["streams", "steps", "Python us", "argmax us", "whole step ms"], rows)


def _measure(engine: Engine, tokenizer: Tokenizer, streams: int, seed: str) -> StepCost:
    backend: Any = engine._backend
    decoding, picking = _Meter(), _Meter()
    for index in range(streams):
        engine.add(_request(tokenizer, seed, index))
    for sequence in engine._active.values():
        sampler: Any = sequence.sampler
        sampler.pick = picking.wrap(sampler.pick)
    plain_decode = backend.decode
    backend.decode = decoding.wrap(plain_decode)
    try:
        return _steps(engine, streams, decoding, picking)
    finally:
        backend.decode = plain_decode


def _steps(engine: Engine, streams: int, decoding: _Meter, picking: _Meter) -> StepCost:
    python_us, pick_us, wall_ms = [], [], []
    while engine.has_work:
        decoding.spent_ns = picking.spent_ns = 0
        started_ts, started_ns = time.perf_counter(), time.thread_time_ns()
        engine.step()
        spent_ns = time.thread_time_ns() - started_ns
        if engine.last_step.num_prompt or engine.last_step.num_decode != streams:
            continue
        python_us.append((spent_ns - decoding.spent_ns - picking.spent_ns) * US)
        pick_us.append(picking.spent_ns * US)
        wall_ms.append((time.perf_counter() - started_ts) * 1e3)
    python_us, pick_us = python_us[WARM_STEPS:], pick_us[WARM_STEPS:]
    return StepCost(
        streams,
        len(python_us),
        statistics.median(python_us),
        statistics.median(pick_us),
        statistics.median(wall_ms[WARM_STEPS:]),
    )


def _request(tokenizer: Tokenizer, seed: str, index: int) -> SequenceRequest:
    text = chat("distinct", seed, index)[0][1]
    tokens = tokenizer.tokenize(text, add_special=True, parse_special=False)
    return SequenceRequest(
        generation_id=f"steps-{index}",
        tokens=tuple(tokens),
        owner_key="user:1",
        cache_scope="user:1",
        seed=1,
        sampling=SamplingParams(temperature=0.0, ignore_eos=True),
        limits=Limits(max_tokens=NUM_TOKENS),
    )
