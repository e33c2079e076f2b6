"""`python -m tests.bench embeddings`: gaps between the tokens of chats, with and without vectors.

One engine in this process, one chat; 20 texts a second arrive as requests of their own. Both sides
take turns, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from inference.engine.contract import StepEngine
from inference.engine.vector_requests import VectorPipeline
from inference.engine.whole import build_whole
from inference.protocol.events import Delta, Finished, Result
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import EmbedRequest, TextPrompt
from inference.protocol.spec import EngineSpec
from tests.bench.figures import BenchError
from tests.bench.workloads import chat
from tests.engine.driving import ask
from tests.generated import table

PER_S = 20.0
MAX_OPEN = 32  # requests that a worker would take from the queue
NUM_TOKENS = 150
WARM_TOKENS = 10
LIMIT_S = 120.0
TEXT = "A sentence of the kind that people put into an index, number {}, with some twenty tokens."
MS = 1e3


@dataclass(frozen=True, slots=True)
class Gaps:
    """Of one chat: seconds between tokens, and how many texts became vectors meanwhile."""

    gaps_s: tuple[float, ...]
    num_vectors: int


def measure(spec: EngineSpec, rounds: int, seed: str) -> tuple[list[Gaps], list[Gaps]]:
    """(alone, beside vectors), a chat each a round."""
    built = build_whole(spec)
    if built.vectors is None or not built.answers:
        raise BenchError("the model has to write answers and make vectors")
    texts = VectorPipeline(built.tokenizer, built.vectors)
    alone, beside = [], []
    try:
        for number in range(rounds):
            prompt = chat("distinct", seed, number)[0][1]
            tokens = built.tokenizer.tokenize(prompt, add_special=True, parse_special=False)
            alone.append(_chat(built.engine, tokens, f"a{number}", None))
            beside.append(_chat(built.engine, tokens, f"b{number}", texts))
    finally:
        built.engine.close()
    return alone, beside


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
    while engine.has_work:
        engine.step()
    gaps = [after - before for before, after in itertools.pairwise(at)]
    return Gaps(tuple(gaps[WARM_TOKENS:]), num_vectors)


def render(alone: Sequence[Gaps], beside: Sequence[Gaps]) -> str:
    """A table of both sides."""
    rows = []
    for name, side in (("alone", alone), ("beside vectors", beside)):
        gaps = [gap for one in side for gap in one.gaps_s]
        rows.append(
            [
                name,
                f"{statistics.median(gaps) * MS:.1f}",
                f"{_p95(gaps) * MS:.1f}",
                f"{max(gaps) * MS:.1f}",
                str(sum(one.num_vectors for one in side)),
            ]
        )
    return table(["chat", "ITL p50 ms", "p95", "longest", "vectors"], rows)


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20)[-1] if len(values) > 1 else values[0]
