"""The part of docs/benchmarks.md about loading and swapping models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.headline import headline, shown
from tests.bench.machine import machine_facts, today
from tests.bench.report import MIN_ROUNDS, QUIET_LOAD
from tests.generated import table

if TYPE_CHECKING:
    from tests.bench.models_bench import ModelsRun


def render(run: ModelsRun) -> str:
    """Machine, files, overhead as Markdown."""
    head = headline(
        {"date": today(), **machine_facts(), "threads": str(run.threads)},
        rounds=run.rounds,
        min_rounds=MIN_ROUNDS,
        load=run.load,
        quiet_load=QUIET_LOAD,
    )
    return "\n\n".join((head, _files(run), _asked(run)))


def _files(run: ModelsRun) -> str:
    rows = [
        [
            of.title,
            f"{of.size_mib:.0f}",
            shown(of.load, 2),
            shown(of.swap, 2),
            shown(of.loaded, 2),
            f"{of.expected:.0f}",
            shown(of.taken, 0),
            shown([taken / of.expected for taken in of.taken], 2) if of.expected else "–",
        ]
        for of in run.files.values()
    ]
    head = ["file", "MiB", "load s", "swap s", "loaded s"]
    head += ["expected MiB", "taken MiB", "taken / expected"]
    return "Median (least..most) of the rounds:\n\n" + table(head, rows)


def _asked(run: ModelsRun) -> str:
    pairs = zip(run.engine, run.product, strict=True)
    rows = [
        ["engine in-process", shown(run.engine, 1)],
        ["product", shown(run.product, 1)],
        ["difference within a round", shown([product - engine for engine, product in pairs], 1)],
    ]
    return table(["a short question, one token", "ms"], rows)
