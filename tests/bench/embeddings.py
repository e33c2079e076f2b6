"""`python -m tests.bench embeddings`: gaps between the tokens of chats, with and without vectors.

One engine in this process, one chat; 20 texts a second arrive as requests of their own. Both sides
take turns, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inference.engine.contract import StepEngine
from inference.engine.vector_requests import VectorPipeline
from inference.engine.whole import build_whole
from inference.protocol.events import Delta, Finished, Result
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import EmbedRequest, TextPrompt
from inference.protocol.spec import EngineSpec
from tests.bench.figures import BenchError, spread
from tests.bench.headline import headline, shown
from tests.bench.machine import facts, load_now
from tests.bench.report import MIN_ROUNDS, QUIET_LOAD
from tests.bench.verdicts import Bound, judge
from tests.bench.workloads import chat
from tests.engine.driving import ask
from tests.generated import table

COMMAND = "python -m tests.bench embeddings"
PER_S = 20.0
MAX_OPEN = 32  # requests that a worker would take from the queue
NUM_TOKENS = 150
WARM_TOKENS = 10
LIMIT_S = 120.0
TEXT = "A sentence of the kind that people put into an index, number {}, with some twenty tokens."
MS = 1e3


@dataclass(frozen=True, slots=True)
class Gaps:
    """Of one chat: seconds between tokens, how many texts became vectors meanwhile, and how long
    it took."""

    gaps_s: tuple[float, ...]
    num_vectors: int
    wall_s: float

    @property
    def p95_ms(self) -> float:
        """The gap that 95 % don't exceed."""
        return statistics.quantiles(self.gaps_s, n=20, method="inclusive")[-1] * MS


@dataclass(slots=True)
class EmbeddingsRun:
    """What came out, a chat of each side a round."""

    spec: EngineSpec
    alone: list[Gaps] = field(default_factory=list)
    beside: list[Gaps] = field(default_factory=list)
    load: list[float] = field(default_factory=list)


def measure(spec: EngineSpec, rounds: int, seed: str) -> EmbeddingsRun:
    """Write chats alone and beside vectors, in turn."""
    built = build_whole(spec)
    if built.vectors is None or not built.answers:
        raise BenchError("the model has to write answers and make vectors")
    texts = VectorPipeline(built.tokenizer, built.vectors)
    run = EmbeddingsRun(spec)
    try:
        for number in range(rounds):
            prompt = chat("distinct", seed, number)[0][1]
            tokens = built.tokenizer.tokenize(prompt, add_special=True, parse_special=False)
            run.alone.append(_chat(built.engine, tokens, f"a{number}", None))
            run.beside.append(_chat(built.engine, tokens, f"b{number}", texts))
            run.load.append(load_now())
    finally:
        built.engine.close()
    return run


def _chat(
    engine: StepEngine[Any], tokens: Sequence[int], name: str, texts: VectorPipeline | None
) -> Gaps:
    sampling = SamplingParams(temperature=0.0, ignore_eos=True)
    engine.purge()
    request = ask(name, b"", sampling=sampling, limits=Limits(max_tokens=NUM_TOKENS))
    engine.add(replace(request, tokens=tuple(tokens)))
    began_ts = time.monotonic()
    at: list[float] = []
    num_asked = num_vectors = 0
    is_over = False
    while not is_over:
        elapsed_s = time.monotonic() - began_ts
        if elapsed_s > LIMIT_S:
            raise BenchError("a chat took too long")
        due = min(elapsed_s * PER_S, num_vectors + MAX_OPEN)
        while texts is not None and num_asked < due:
            inputs = (TextPrompt(TEXT.format(num_asked)),)
            asked = EmbedRequest(f"{name}-v{num_asked}", "m", "u", 0.0, 0.0, inputs=inputs)
            engine.add(texts.prepare(asked))
            num_asked += 1
        for item in engine.step():
            if isinstance(item.event, Delta) and item.generation_id == name:
                at.append(time.monotonic())
            num_vectors += isinstance(item.event, Result)
            is_over = is_over or (item.generation_id == name and isinstance(item.event, Finished))
    wall_s = time.monotonic() - began_ts
    while engine.has_work:
        engine.step()
    gaps = [after - before for before, after in itertools.pairwise(at)]
    return Gaps(tuple(gaps[WARM_TOKENS:]), num_vectors, wall_s)


def render(run: EmbeddingsRun) -> str:
    """Both sides, and whether the stalls keep to the setting."""
    step_ms = run.spec.step_target_ms
    rows = [_row("alone", run.alone, step_ms), _row("beside vectors", run.beside, step_ms)]
    head = ["chat", "ITL p50 ms", "p95", "longest", "vectors/s", "setting / p95", "verdict"]
    above = headline(
        {**facts(run.spec), "step setting": f"{step_ms:.0f} ms", "asked": f"{PER_S:.0f} vectors/s"},
        rounds=len(run.load),
        min_rounds=MIN_ROUNDS,
        load=run.load,
        quiet_load=QUIET_LOAD,
    )
    return (
        f"{above}\n\nMedian (least..most) of the rounds, a chat of {NUM_TOKENS} tokens each:\n\n"
        + table(head, rows)
    )


def _row(name: str, side: Sequence[Gaps], step_ms: float) -> list[str]:
    kept = [step_ms / one.p95_ms for one in side]
    return [
        name,
        shown([statistics.median(one.gaps_s) * MS for one in side], 1),
        shown([one.p95_ms for one in side], 1),
        shown([max(one.gaps_s) * MS for one in side], 1),
        shown([one.num_vectors / one.wall_s for one in side], 1),
        shown(kept, 2),
        judge(spread(kept), Bound(None, 1.0)),
    ]
