"""The part of docs/benchmarks.md about loading and swapping models."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.bench.figures import spread
from tests.bench.machine import machine_facts, today
from tests.generated import table

if TYPE_CHECKING:
    from tests.bench.models_bench import ModelsRun

MIN_ROUNDS = 5
QUIET_LOAD = 2.5


def render(run: ModelsRun) -> str:
    """Machine, files, overhead as Markdown."""
    return "\n\n".join(
        part for part in (_facts(run), _warning(run), _files(run), _asked(run)) if part
    )


def _facts(run: ModelsRun) -> str:
    rows = [
        ("date", today()),
        *machine_facts().items(),
        ("threads", str(run.threads)),
        ("rounds", str(run.rounds)),
        ("load of the machine", _text(run.load, 1)),
    ]
    return table(["", ""], rows)


def _warning(run: ModelsRun) -> str:
    notes = []
    if run.rounds < MIN_ROUNDS:
        notes.append(f"{run.rounds} of the {MIN_ROUNDS} rounds that a comparison needs")
    if statistics.median(run.load) > QUIET_LOAD:
        notes.append("the machine wasn't quiet")
    return f"**Provisional: {'; '.join(notes)}.**" if notes else ""


def _files(run: ModelsRun) -> str:
    rows = [
        [
            of.title,
            f"{of.size_mib:.0f}",
            _text(of.load, 2),
            _text(of.swap, 2),
            _text(of.loaded, 2),
            f"{of.expected:.0f}",
            _text(of.taken, 0),
            _text([taken / of.expected for taken in of.taken], 2) if of.expected else "–",
        ]
        for of in run.files.values()
    ]
    head = ["file", "MiB", "load s", "swap s", "loaded s"]
    head += ["expected MiB", "taken MiB", "taken / expected"]
    return "Median (least..most) of the rounds:\n\n" + table(head, rows)


def _asked(run: ModelsRun) -> str:
    pairs = zip(run.engine, run.product, strict=True)
    rows = [
        ["engine in-process", _text(run.engine, 1)],
        ["product", _text(run.product, 1)],
        ["difference within a round", _text([product - engine for engine, product in pairs], 1)],
    ]
    return table(["a short question, one token", "ms"], rows)


def _text(values: Sequence[float], digits: int) -> str:
    found = spread(values)
    range_ = f"{found.least:.{digits}f}..{found.most:.{digits}f}"
    return f"{found.median:.{digits}f} ({range_})"
