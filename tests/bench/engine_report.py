"""The part of docs/benchmarks.md that `make bench-engine` generates."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.bench import headline
from tests.bench.figures import Spread, spread
from tests.bench.models import MODELS
from tests.bench.peer import PeerSettings
from tests.bench.report import UNITS
from tests.bench.results import Record, by_model
from tests.bench.rounds import Round, idle_of
from tests.bench.sides import ENGINE, LOOP, PEER, PRODUCT
from tests.bench.trials import Family, Tried, family_of, pick, pick_one
from tests.bench.verdicts import REQUIREMENTS, STEP, Bound, Requirement, compare, judge
from tests.bench.workloads import WORKLOADS, Workload
from tests.generated import table

COMMAND = "make bench-engine"
MIN_ROUNDS = 9
QUIET_EXTRA_LOAD = 2.0  # over the threads of a decode: the busy workload, clients, web
JUDGED = (ENGINE, PRODUCT)
SHOWN = (
    *("tps", "ttft50", "ttft95", "itl50", "itl95", "itl_max"),
    *("tpot", "e2e50", "e2e95", "decode_tps", "in_time"),
)
TITLES = {
    **UNITS,
    "itl_max": "worst gap ms",
    "decode_tps": "tok/s, all decode",
    "in_time": "fluent",
}
BASES = {PEER: "llama-server", LOOP: "bare loop", STEP: "step setting"}


def render(records: Sequence[Record]) -> str:
    """Everything of every model as Markdown."""
    return "\n\n".join(_model(MODELS[name].title, own) for name, own in by_model(records).items())


def _model(title: str, records: Sequence[Record]) -> str:
    rounds = [record.round for record in records]
    parts = [
        f"### {title}",
        _facts(records),
        _warnings(records),
        _tried(records[0]),
        _ratios(rounds, records[0].step_ms),
        _medians(rounds),
        _idle(rounds),
        _memory(records[-1]),
    ]
    return "\n\n".join(part for part in parts if part)


def _facts(records: Sequence[Record]) -> str:
    load = [load for record in records for load in record.round.load]
    rows = [
        ("date", _each(record.date for record in records)),
        *records[0].facts.items(),
        ("rounds", str(len(records))),
        ("seed", _each(record.seed for record in records)),
        ("load of the machine", headline.shown(load, 1)),
    ]
    return table(["", ""], rows)


def _each(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _warnings(records: Sequence[Record]) -> str:
    load = [load for record in records for load in record.round.load]
    quiet_load = records[0].threads + QUIET_EXTRA_LOAD
    return headline.provisional(len(records), load, min_rounds=MIN_ROUNDS, quiet_load=quiet_load)


def _tried(record: Record) -> str:
    if not record.tried:
        return ""
    picked = {family: pick(tried) for family, tried in record.tried.items()}
    ours = pick_one(record.own)
    num = len(next(iter(record.tried["distinct"].values())))
    others = ", ".join(name for name in WORKLOADS if family_of(name) == "distinct")
    return (
        f"What was tried before the rounds, tokens/s at 8 streams, median of {num} tries. "
        f"llama-server's settings that are picked for `distinct` run in {others}; the engine's are "
        "those that are best for both:\n\n"
        + table(
            ["settings", *record.tried],
            [
                *_trials("llama-server", record.tried, lambda family: picked[family]),
                *_trials("engine", record.own, lambda _: ours),
            ],
        )
    )


def _trials(
    name: str, tried: Tried, picked: Callable[[Family], PeerSettings]
) -> Iterator[list[str]]:
    for settings in next(iter(tried.values())):
        medians = (
            f"{statistics.median(by_settings[settings]):.1f}"
            + (" (picked)" if settings == picked(family) else "")
            for family, by_settings in tried.items()
        )
        yield [f"{name}, {settings}", *medians]


def _ratios(rounds: Sequence[Round], step_ms: float) -> str:
    rows = []
    for requirement in REQUIREMENTS:
        for streams, bound in requirement.bounds.items():
            cells = [
                cell
                for side in JUDGED
                for cell in _judged(compare(requirement, streams, side, rounds, step_ms), bound)
            ]
            if any(cells):
                rows.append([*_requirement(requirement, streams, bound), *cells])
    head = ["workload", "figure", "against", "streams", "goal", "floor"]
    head += [name for side in JUDGED for name in (side, "verdict")]
    return (
        "Ratios within a round, median (least..most), above 1 = better than what it is compared "
        "with:\n\n" + table(head, rows)
    )


def _requirement(requirement: Requirement, streams: int, bound: Bound) -> list[str]:
    return [
        requirement.workload,
        requirement.title,
        BASES[requirement.base],
        str(streams),
        "–" if bound.goal is None else f"{bound.goal:g}",
        f"{bound.floor:g}",
    ]


def _judged(ratios: Spread | None, bound: Bound) -> list[str]:
    if ratios is None:
        return ["", ""]
    shown = f"{ratios.median:.2f} ({ratios.least:.2f}..{ratios.most:.2f})"
    return [shown, judge(ratios, bound)]


def _medians(rounds: Sequence[Round]) -> str:
    keys = sorted(
        {key for round_ in rounds for key in round_.cells},
        key=lambda key: (WORKLOADS.index(key.workload), key.concurrency, key.target),
    )
    rows = []
    for key in keys:
        cells = [round_.cells[key] for round_ in rounds if key in round_.cells]
        medians = [statistics.median(getattr(cell, name) for cell in cells) for name in SHOWN]
        shown = [
            _shown(key.workload, name, value) for name, value in zip(SHOWN, medians, strict=True)
        ]
        rows.append([key.workload, str(key.concurrency), key.target, *shown])
    head = ["workload", "streams", "target", *(TITLES.get(name, f"{name} ms") for name in SHOWN)]
    return "Medians of the rounds:\n\n" + table(head, rows)


def _shown(workload: Workload, name: str, value: float) -> str:
    if name == "in_time":
        return f"{value:.0%}"
    if name == "decode_tps" and (workload != "distinct" or not value):
        return "–"
    return f"{value:.1f}"


def _idle(rounds: Sequence[Round]) -> str:
    said = [
        f"{name} {spread(shares).median:.1%} ({spread(shares).most:.1%} at most)"
        for name, shares in sorted(idle_of(rounds).items())
    ]
    return f"CPU of a side that isn't asked, of one core: {', '.join(said)}." if said else ""


def _memory(record: Record) -> str:
    rows = [
        [m.name, f"{m.rss:.0f}", "–" if m.pss is None else f"{m.pss:.0f}"]
        for m in record.memory
        if m.rss
    ]
    return "Memory after the last round, MiB:\n\n" + table(["process", "RSS", "PSS"], rows)
