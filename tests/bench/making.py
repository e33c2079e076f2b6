"""Rounds and records with chosen figures, for tests of what is made of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from tests.bench.figures import Answer, Figures, figures_of
from tests.bench.peer import ALL_SETTINGS, PeerSettings
from tests.bench.processes import Memory
from tests.bench.results import Record
from tests.bench.rounds import Key, Round
from tests.bench.trials import FAMILIES, Tried

PLAIN = figures_of([Answer((0.1, 0.2, 0.3), 3, 10, "abc")], wall_s=1.0)


def figures(**fields: float) -> Figures:
    """Figures of a small cell, some of them replaced."""
    return dataclasses.replace(PLAIN, **fields)


def make_round(number: int, cells: Mapping[Key, Figures]) -> Round:
    """A round on a quiet machine."""
    return Round(number, dict(cells), {"peer": [0.0, 0.01]}, [1.5])


def make_tried(best: PeerSettings) -> Tried:
    """Two tries of each setting, of which `best` is the fastest."""
    return {
        family: {s: [200.0, 210.0] if s == best else [100.0, 90.0] for s in ALL_SETTINGS}
        for family in FAMILIES
    }


def make_record(round_: Round, *, model: str = "smollm2", facts: Sequence[str] = ()) -> Record:
    """A record; `facts` are more than the usual ones."""
    return Record(
        model=model,
        date="2026-01-02",
        seed="7",
        threads=2,
        step_ms=200.0,
        facts=dict.fromkeys(("CPU", *facts), "x"),
        tried=make_tried(ALL_SETTINGS[0]),
        own=make_tried(ALL_SETTINGS[2]),
        round=round_,
        memory=[Memory("web", 10.0, None), Memory("engine", 20.0, 15.0)],
    )
