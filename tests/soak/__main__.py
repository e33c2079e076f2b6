"""`make soak`: `python -m tests.soak --minutes 20 --seed 7`; 1 when something leaks."""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from inference.engine.starter import find_starter_model
from inference.protocol.spec import EngineSpec
from tests.generated import renew
from tests.soak import report
from tests.soak.soak import Plan, run
from tests.soak.traffic import MODEL

DOCS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
COMMAND = "make soak"
NUM_SLOTS, CONTEXT_LEN, RAM_MIB = 8, 512, 8


def main(arguments: Sequence[str]) -> int:
    """Soak, report, judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--interval", type=float, default=30.0, help="seconds between samples")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--engine", choices=("llama", "mock"), default="llama")
    parser.add_argument(
        "--write", action="store_true", help=f"renew the tables in docs/{DOCS.name}"
    )
    options = parser.parse_args(arguments)
    plan = Plan(soak_spec(options.engine), options.seed, 60 * options.minutes, options.interval)
    print(f"seed {plan.seed}", flush=True)
    found = run(plan, lambda line: print(line, flush=True))
    generated = report.render(found)
    print(f"\n{generated}\n")
    if options.write:
        renew(DOCS, COMMAND, generated)
    bad = report.problems(found)
    for text in bad:
        print(f"soak: {text}", file=sys.stderr)
    return 1 if bad else 0


def soak_spec(engine_class: str) -> EngineSpec:
    """The starter model, or the mock, with little of everything."""
    path = find_starter_model() if engine_class == "llama" else ""
    assert path is not None, "the starter model's package isn't installed"
    return EngineSpec(
        model=MODEL,
        engine_id="soak",
        redis_url="",
        redis_prefix="",
        engine_class=engine_class,
        model_path=str(path),
        num_slots=NUM_SLOTS,
        context_len=CONTEXT_LEN,
        threads=max(1, len(os.sched_getaffinity(0)) - 1),
        cache_ram_mib=RAM_MIB,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
