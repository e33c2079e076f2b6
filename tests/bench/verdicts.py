"""What the engine must reach against its peer, and whether it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tests.bench.figures import Figures, Spread, ratio, spread
from tests.bench.rounds import Key, Round
from tests.bench.sides import LOOP, PEER
from tests.bench.workloads import Workload

Verdict: TypeAlias = Literal["goal met", "floor met", "below goal", "MISSED", "not established"]
STEP = "step"  # instead of a side: the setting that bounds a step with prompt work


@dataclass(frozen=True, slots=True)
class Bound:
    """Least ratios: what is wanted (None: nothing more than the floor), what is owed."""

    goal: float | None
    floor: float


@dataclass(frozen=True, slots=True)
class Requirement:
    """A figure of a workload against `base`, by number of streams; above 1 is better."""

    workload: Workload
    figure: str
    title: str
    bounds: Mapping[int, Bound]
    base: str = PEER


def _alike(bound: Bound) -> dict[int, Bound]:
    return dict.fromkeys((1, 4, 8), bound)


REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        "distinct",
        "tps",
        "tokens/s",
        {1: Bound(1.1, 0.95), 4: Bound(1.1, 0.95), 8: Bound(1.15, 1.0)},
    ),
    Requirement(
        "distinct",
        "ttft50",
        "TTFT p50",
        {1: Bound(1.2, 1.0), 4: Bound(1.5, 1.1), 8: Bound(3.0, 1.7)},
    ),
    Requirement("distinct", "e2e50", "end-to-end p50", _alike(Bound(1.1, 1.0))),
    Requirement("distinct", "e2e95", "end-to-end p95", _alike(Bound(1.1, 1.0))),
    Requirement("distinct", "itl95", "ITL p95", _alike(Bound(1.0, 0.9))),
    Requirement("distinct", "itl_max", "worst stall", _alike(Bound(None, 1.0)), STEP),
    Requirement(
        "distinct", "decode_tps", "tokens/s while all decode", _alike(Bound(0.97, 0.9)), LOOP
    ),
    Requirement(
        "shared",
        "tps",
        "tokens/s",
        {1: Bound(None, 1.0), 4: Bound(1.7, 1.3), 8: Bound(2.0, 1.5)},
    ),
    Requirement(
        "shared",
        "ttft50",
        "TTFT p50",
        {1: Bound(None, 1.0), 4: Bound(4.0, 2.5), 8: Bound(4.0, 2.5)},
    ),
    Requirement(
        "shared",
        "in_time",
        "answers with TTFT ≤ 2 s, TPOT ≤ 60 ms",
        {4: Bound(None, 1.0), 8: Bound(None, 1.0)},
    ),
    Requirement("arrive", "itl_max", "worst ITL of the seven", {8: Bound(8.0, 3.0)}),
    Requirement("chats", "ttft50", "TTFT p50", {8: Bound(1.5, 1.0)}),
    Requirement("busy", "tps", "tokens/s", {1: Bound(None, 1.0)}),
)


def judge(ratios: Spread, bound: Bound) -> Verdict:
    """A range wholly below the floor has missed it; one that straddles it says nothing."""
    if ratios.most < bound.floor:
        return "MISSED"
    if ratios.least < bound.floor:
        return "not established"
    if bound.goal is None:
        return "floor met"
    return "goal met" if ratios.median >= bound.goal else "below goal"


def compare(
    requirement: Requirement, streams: int, side: str, rounds: Sequence[Round], step_ms: float
) -> Spread | None:
    """Ratios of `side` to the requirement's base in the rounds that have both; None: none has."""
    found = []
    for round_ in rounds:
        ours = round_.cells.get(Key(requirement.workload, streams, side))
        base = _base(requirement, streams, round_, step_ms)
        if ours is None or base is None:
            continue
        value = float(getattr(ours, requirement.figure))
        if requirement.figure == "decode_tps" and not (value and base):
            continue  # the streams never all decoded at once: nothing was measured
        found.append(ratio(requirement.figure, value, base))
    return spread(found) if found else None


def _base(requirement: Requirement, streams: int, round_: Round, step_ms: float) -> float | None:
    if requirement.base == STEP:
        return step_ms
    figures: Figures | None = round_.cells.get(Key(requirement.workload, streams, requirement.base))
    return None if figures is None else float(getattr(figures, requirement.figure))
