"""The part of docs/benchmarks.md about the API families."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from tests.bench.families import ROUNDS, FamiliesRun
from tests.bench.figures import Figures, ratio
from tests.bench.forms import FORMS
from tests.bench.headline import headline, shown
from tests.bench.machine import facts
from tests.bench.report import QUIET_LOAD
from tests.bench.rounds import Key
from tests.bench.sides import ENGINE
from tests.generated import table

COMMAND = "python -m tests.bench families"
MERGED = "merged"  # more than one token came at once: there is no time of one
MERGED_DELTAS = 0.9


def render(runs: Sequence[FamiliesRun]) -> str:
    """A table for each engine as Markdown."""
    return "\n\n".join(_run(run) for run in runs)


def _run(run: FamiliesRun) -> str:
    plan, sizes = run.plan, run.plan.sizes
    requests = ", ".join(f"{sizes.num_requests(n)} at {n} streams" for n in plan.concurrency)
    about = {
        **facts(run.spec),
        "requests": f"{requests}, {sizes.max_tokens} new tokens each",
        "seed": plan.seed,
    }
    head = headline(
        about,
        rounds=plan.rounds,
        min_rounds=ROUNDS,
        load=[load for round_ in run.rounds for load in round_.load],
        quiet_load=QUIET_LOAD,
    )
    return f"With {run.title}:\n\n{head}\n\n{_families(run)}"


def _families(run: FamiliesRun) -> str:
    rows = []
    for streams in run.plan.concurrency:
        base = _cells(run, streams, ENGINE)
        token_ms, _ = _token(base, base)
        times = [_median(base, "tps", 0), _median(base, "ttft50"), "", token_ms]
        rows.append([str(streams), "engine in-process", *times, "", "", ""])
        rows += [_family(run, streams, form.name, base) for form in FORMS]
    head = ["streams", "family", "tok/s", "TTFT p50 ms", "added ms", "a token ms", "added ms"]
    head += ["web CPU ms a token", "engine / family, end-to-end p50"]
    return (
        "Medians of the rounds; what is added to the engine's time, and ratios, are of one round: "
        "median (least..most):\n\n" + table(head, rows)
    )


def _family(run: FamiliesRun, streams: int, name: str, base: Sequence[Figures]) -> list[str]:
    cells = _cells(run, streams, name)
    return [
        str(streams),
        name,
        _median(cells, "tps", 0),
        _median(cells, "ttft50"),
        _within(cells, base, lambda ours, engine: ours.ttft50 - engine.ttft50),
        *_token(cells, base),
        f"{statistics.median(run.web_ms[_key(run, streams, name)]):.2f}",
        _within(cells, base, lambda ours, engine: ratio("e2e50", ours.e2e50, engine.e2e50)),
    ]


def _token(cells: Sequence[Figures], base: Sequence[Figures]) -> list[str]:
    """Time a token after the first, and what is added to it."""
    if statistics.median(cell.deltas for cell in cells) < MERGED_DELTAS:
        return [MERGED, ""]
    added = _within(cells, base, lambda ours, engine: ours.tpot - engine.tpot)
    return [_median(cells, "tpot"), added]


def _key(run: FamiliesRun, streams: int, name: str) -> Key:
    (workload,) = run.plan.workloads
    return Key(workload, streams, name)


def _cells(run: FamiliesRun, streams: int, name: str) -> list[Figures]:
    return [round_.cells[_key(run, streams, name)] for round_ in run.rounds]


def _median(cells: Sequence[Figures], name: str, digits: int = 2) -> str:
    return f"{statistics.median(getattr(cell, name) for cell in cells):.{digits}f}"


def _within(
    cells: Sequence[Figures],
    base: Sequence[Figures],
    compare: Callable[[Figures, Figures], float],
) -> str:
    return shown([compare(*pair) for pair in zip(cells, base, strict=True)], 2)
