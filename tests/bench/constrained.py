"""`python -m tests.bench constrained`: decoding under a schema against free decoding.

One engine in this process, the same prompts, the same number of tokens; both sides take turns
within a round, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from inference.engine.contract import SequenceRequest
from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.protocol.params import Grammar, Limits, SamplingParams
from inference.protocol.spec import EngineSpec
from inference.text.tokenizer import Tokenizer
from tests.bench.figures import spread
from tests.bench.headline import headline, shown
from tests.bench.machine import facts, load_now
from tests.bench.report import MIN_ROUNDS, QUIET_LOAD
from tests.bench.verdicts import Bound, judge
from tests.bench.workloads import chat
from tests.generated import table

COMMAND = "python -m tests.bench constrained"
FLOOR = 0.9  # of the tokens a second without a schema
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


@dataclass(slots=True)
class Rates:
    """Tokens a second while all streams decode, by round: without a schema and under it."""

    sampling: str
    streams: int
    free_tps: list[float] = field(default_factory=list)
    bound_tps: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        """Under the schema over without, within each round."""
        return [b / f for b, f in zip(self.bound_tps, self.free_tps, strict=True)]


@dataclass(slots=True)
class ConstrainedRun:
    """What came out."""

    spec: EngineSpec
    rates: list[Rates]
    load: list[float] = field(default_factory=list)


def measure(spec: EngineSpec, streams: Sequence[int], rounds: int, seed: str) -> ConstrainedRun:
    """Step an engine of its own with 1 or more streams, the cells of a round in an order drawn
    anew."""
    engine, tokenizer = build_engine(spec)
    assert isinstance(engine, Engine)
    run = ConstrainedRun(spec, [Rates(name, num) for name in SAMPLINGS for num in streams])
    try:
        for number in range(rounds):
            order = list(run.rates)
            random.Random(f"{seed}/{number}").shuffle(order)
            for rates in order:
                _measure(engine, tokenizer, rates, f"{seed}/{number}", is_free_first=number % 2 > 0)
            run.load.append(load_now())
    finally:
        engine.close()
    return run


def render(run: ConstrainedRun) -> str:
    """The result as Markdown."""
    rows = [
        [
            rates.sampling,
            str(rates.streams),
            f"{statistics.median(rates.free_tps):.1f}",
            f"{statistics.median(rates.bound_tps):.1f}",
            shown(rates.ratios, 2),
            judge(spread(rates.ratios), Bound(None, FLOOR)),
        ]
        for rates in run.rates
    ]
    head = ["sampling", "streams", "free tok/s", "under a schema tok/s", "ratio", "verdict"]
    above = headline(
        {**facts(run.spec), "floor of the ratio": f"{FLOOR:g}"},
        rounds=len(run.load),
        min_rounds=MIN_ROUNDS,
        load=run.load,
        quiet_load=QUIET_LOAD,
    )
    return f"{above}\n\n{table(head, rows)}"


def _measure(
    engine: Engine, tokenizer: Tokenizer, rates: Rates, seed: str, *, is_free_first: bool
) -> None:
    """One round of one cell, both sides on the same prompts."""
    free = SAMPLINGS[rates.sampling]
    prompts = [
        tokenizer.tokenize(
            chat("distinct", seed, stream)[0][1], add_special=True, parse_special=False
        )
        for stream in range(rates.streams)
    ]
    pair = [(rates.free_tps, free), (rates.bound_tps, replace(free, grammar=GRAMMAR))]
    for found, sampling in pair if is_free_first else reversed(pair):
        found.append(_rate(engine, prompts, sampling))


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
