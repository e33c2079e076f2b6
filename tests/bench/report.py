"""The generated part of docs/benchmarks.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tests.bench.figures import HIGHER_IS_BETTER, SHOWN, ratios, spread
from tests.bench.headline import provisional
from tests.bench.machine import facts
from tests.bench.rounds import Key, Run
from tests.bench.sides import ENGINE, PRODUCT
from tests.generated import table

UNITS = {"tps": "tok/s", "deltas": "deltas/token"}
MIN_ROUNDS = 5  # fewer say nothing about differences below about 15 %
QUIET_LOAD = 2.5  # of both sides and their clients; more: somebody else was at work


def render(run: Run) -> str:
    """Machine, figures, ratios, memory as Markdown."""
    parts = [_facts(run), _warnings(run), _figures(run), _ratios(run), _idle(run), _memory(run)]
    return "\n\n".join(part for part in parts if part)


def _facts(run: Run) -> str:
    plan = run.plan
    rows = [*facts(run.spec).items(), ("rounds", str(plan.rounds)), ("seed", plan.seed)]
    rows.append(("new tokens an answer", str(plan.sizes.max_tokens)))
    rows.append(("load of the machine", f"{statistics.median(run.load):.1f} ({_range(run.load)})"))
    return table(["", ""], rows)


def _warnings(run: Run) -> str:
    rounds, load = run.plan.rounds, run.load
    return provisional(rounds, load, min_rounds=MIN_ROUNDS, quiet_load=QUIET_LOAD)


def _figures(run: Run) -> str:
    rows = [
        [key.workload, str(key.concurrency), key.target]
        + [
            f"{statistics.median(getattr(cell, name) for cell in cells):.{_digits(name)}f}"
            for name in SHOWN
        ]
        for key, cells in sorted(run.cells.items())
    ]
    head = ["workload", "streams", "target", *(UNITS.get(name, f"{name} ms") for name in SHOWN)]
    return "Medians of the rounds:\n\n" + table(head, rows)


def _ratios(run: Run) -> str:
    rows = []
    for key, ours in sorted(run.cells.items()):
        base = run.cells.get(Key(key.workload, key.concurrency, ENGINE))
        if key.target != PRODUCT or base is None:
            continue
        spreads = [ratios(name, ours, base) for name in SHOWN]
        cells = [f"{each.median:.2f} ({each.least:.2f}..{each.most:.2f})" for each in spreads]
        rows.append([key.workload, str(key.concurrency), *cells])
    head = ["workload", "streams", *(UNITS.get(name, name) for name in SHOWN)]
    return (
        "Product against engine, ratios within a round: median (least..most), above 1 = the "
        "product is better:\n\n" + table(head, rows)
    )


def _idle(run: Run) -> str:
    said = [
        f"the {name} {spread(shares).median:.1%} ({spread(shares).most:.1%} at most)"
        for name, shares in sorted(run.idle.items())
    ]
    return f"CPU of the side that isn't asked, of one core: {', '.join(said)}."


def _memory(run: Run) -> str:
    rows = [[m.name, f"{m.rss:.0f}", "–" if m.pss is None else f"{m.pss:.0f}"] for m in run.memory]
    return "Memory after the last round, MiB:\n\n" + table(["process", "RSS", "PSS"], rows)


def _digits(name: str) -> int:
    return 2 if name in HIGHER_IS_BETTER - {"tps"} else 1


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.1f}..{max(values):.1f}"
