"""Measured rounds in a file, a JSON line each: what an interrupted run has measured stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.bench.figures import BenchError, Figures
from tests.bench.peer import PeerSettings
from tests.bench.processes import Memory
from tests.bench.rounds import Key, Round
from tests.bench.trials import Family, Tried


@dataclass(frozen=True, slots=True)
class Record:
    """One round of one model. `facts`: what the records of a model must have alike. `tried`: the
    peer's settings, `own`: the engine's, see `trials`; empty without the peer."""

    model: str
    date: str
    seed: str
    threads: int
    step_ms: float
    facts: dict[str, str]
    tried: Tried
    own: Tried
    round: Round
    memory: list[Memory]


def append(path: Path, record: Record) -> None:
    """Add a line at the end; one that was cut off there stays a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_cut = path.is_file() and not path.read_bytes().endswith(b"\n") and path.stat().st_size
    with path.open("a", encoding="utf-8") as file:
        file.write(("\n" if is_cut else "") + json.dumps(_to_plain(record)) + "\n")


def read(path: Path) -> list[Record]:
    """All rounds in `path`, the models in the order of their first ones.

    A line that isn't whole is left out: the run ended while it was written.

    Raises:
        BenchError: it can't be read, nothing is in it, or rounds of one model were measured under
            different conditions.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise BenchError(f"no results in {path.name}: {error.strerror}") from error
    records = []
    for line in lines:
        try:
            plain = json.loads(line)
        except ValueError:
            continue
        records.append(_from_plain(plain))
    if not records:
        raise BenchError(f"no whole round in {path.name}")
    _check_alike(records)
    return records


def by_model(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each model."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.model, []).append(record)
    return found


def _check_alike(records: Sequence[Record]) -> None:
    for model, own in by_model(records).items():
        for record in own[1:]:
            names = {
                name
                for name in record.facts.keys() | own[0].facts.keys()
                if record.facts.get(name) != own[0].facts.get(name)
            }
            if names or (record.tried, record.own) != (own[0].tried, own[0].own):
                what = ", ".join(sorted(names)) or "what was tried of settings"
                raise BenchError(f"rounds of {model} aren't comparable: {what}")


def _to_plain(record: Record) -> dict[str, Any]:
    return {
        "model": record.model,
        "date": record.date,
        "seed": record.seed,
        "threads": record.threads,
        "step_ms": record.step_ms,
        "facts": record.facts,
        "tried": _tried_to_plain(record.tried),
        "own": _tried_to_plain(record.own),
        "round": record.round.number,
        "cells": [
            {**asdict(key), "figures": asdict(figures)}
            for key, figures in record.round.cells.items()
        ],
        "idle": record.round.idle,
        "load": record.round.load,
        "memory": [asdict(memory) for memory in record.memory],
    }


def _tried_to_plain(tried: Tried) -> list[dict[str, Any]]:
    return [
        {"family": family, **asdict(settings), "tps": tps}
        for family, by_settings in tried.items()
        for settings, tps in by_settings.items()
    ]


def _tried_from_plain(trials: Sequence[dict[str, Any]]) -> Tried:
    tried: Tried = {}
    for trial in trials:
        family: Family = trial["family"]
        settings = PeerSettings(trial["flash_attention"], trial["kv_unified"])
        tried.setdefault(family, {})[settings] = trial["tps"]
    return tried


def _from_plain(plain: dict[str, Any]) -> Record:
    try:
        cells = {
            Key(cell["workload"], cell["concurrency"], cell["target"]): Figures(**cell["figures"])
            for cell in plain["cells"]
        }
        return Record(
            model=plain["model"],
            date=plain["date"],
            seed=plain["seed"],
            threads=plain["threads"],
            step_ms=plain["step_ms"],
            facts=plain["facts"],
            tried=_tried_from_plain(plain["tried"]),
            own=_tried_from_plain(plain["own"]),
            round=Round(plain["round"], cells, plain["idle"], plain["load"]),
            memory=[Memory(**memory) for memory in plain["memory"]],
        )
    except (KeyError, TypeError) as error:
        raise BenchError(f"the results are of another version of the bench: {error!r}") from error
