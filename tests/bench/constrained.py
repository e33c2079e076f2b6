"""`python -m tests.bench constrained`: decoding under a schema against free decoding.

One engine in this process, the same prompts, the same number of tokens; both sides take turns
within a round, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference.engine.contract import SequenceRequest
from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.params import Grammar, Limits, SamplingParams
from inference.protocol.spec import EngineSpec
from inference.text.tokenizer import Tokenizer
from tests.bench.workloads import chat
from tests.generated import table

NUM_TOKENS = 120
WARM_STEPS = 10
# Goes on for longer than NUM_TOKENS, with what answers are made of: names, texts, numbers.
SCHEMA = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "minItems": 40,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 30},
                    "age": {"type": "integer", "minimum": 0, "maximum": 120},
                    "email": {"type": "string", "format": "email", "maxLength": 30},
                    "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
                    "note": {"type": ["string", "null"], "maxLength": 60},
                },
                "required": ["name", "age", "email", "tags"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["people"],
}
GRAMMAR = Grammar(json.dumps(SCHEMA), kind="json_schema", param="json_schema")
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0.0, ignore_eos=True),
    "sampled": SamplingParams(temperature=0.8, ignore_eos=True),
}


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens a second while all streams decode, medians of the rounds; `ratio` of each round."""

    sampling: str
    streams: int
    free_tps: float
    bound_tps: float
    ratio: float


def measure(spec: EngineSpec, streams: Sequence[int], rounds: int, seed: str) -> list[Rate]:
    """Step an engine of its own with 1 or more streams."""
    engine, tokenizer = build_engine(spec)
    assert isinstance(engine, Engine)
    try:
        return [
            _measure(engine, tokenizer, name, num, rounds, seed)
            for name in SAMPLINGS
            for num in streams
        ]
    finally:
        engine.close()


def render(rates: Sequence[Rate]) -> str:
    """The result as Markdown."""
    rows = [
        [r.sampling, str(r.streams), f"{r.free_tps:.1f}", f"{r.bound_tps:.1f}", f"{r.ratio:.2f}"]
        for r in rates
    ]
    return table(["sampling", "streams", "free tok/s", "under a schema tok/s", "ratio"], rows)


def _measure(
    engine: Engine,
    tokenizer: Tokenizer,
    name: str,
    streams: int,
    rounds: int,
    seed: str,
) -> Rate:
    free, bound = SAMPLINGS[name], replace(SAMPLINGS[name], grammar=GRAMMAR)
    frees: list[float] = []
    bounds: list[float] = []
    for index in range(rounds):
        prompts = [
            tokenizer.tokenize(
                chat("distinct", f"{seed}/{index}", stream)[0][1],
                add_special=True,
                parse_special=False,
            )
            for stream in range(streams)
        ]
        pair = [(frees, free), (bounds, bound)]
        for rates, sampling in pair if index % 2 else reversed(pair):
            rates.append(_rate(engine, prompts, sampling))
    ratios = [ours / plain for ours, plain in zip(bounds, frees, strict=True)]
    return Rate(
        name,
        streams,
        statistics.median(frees),
        statistics.median(bounds),
        statistics.median(ratios),
    )


def _rate(engine: Engine, prompts: Sequence[Sequence[int]], sampling: SamplingParams) -> float:
    """Tokens a second of the steps in which every stream decodes."""
    for index, prompt in enumerate(prompts):
        engine.add(
            SequenceRequest(
                generation_id=f"constrained-{index}",
                tokens=tuple(prompt),
                owner_key="user:1",
                cache_scope="user:1",
                seed=index,
                sampling=sampling,
                limits=Limits(max_tokens=NUM_TOKENS),
            )
        )
    walls = []
    while engine.has_work:
        started_ts = time.perf_counter()
        engine.step()
        if not engine.last_step.num_prompt and engine.last_step.num_decode == len(prompts):
            walls.append(time.perf_counter() - started_ts)
    walls = walls[WARM_STEPS:]
    return len(prompts) * len(walls) / sum(walls)
