"""What stands above a table: what the figures depend on, and why they may not count."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from tests.bench.figures import spread
from tests.generated import table


def headline(
    facts: Mapping[str, str],
    *,
    rounds: int,
    min_rounds: int,
    load: Sequence[float],
    quiet_load: float,
) -> str:
    """The facts and the load of the machine, and a warning where `min_rounds` weren't run or the
    load was above `quiet_load`."""
    rows = [*facts.items(), ("rounds", str(rounds)), ("load of the machine", shown(load, 1))]
    warning = provisional(rounds, load, min_rounds=min_rounds, quiet_load=quiet_load)
    return "\n\n".join(filter(None, (table(["", ""], rows), warning)))


def provisional(rounds: int, load: Sequence[float], *, min_rounds: int, quiet_load: float) -> str:
    """Why the figures may not count; "" if they do."""
    notes = []
    if rounds < min_rounds:
        notes.append(f"{rounds} of the {min_rounds} rounds that a comparison needs")
    if statistics.median(load) > quiet_load:
        notes.append("the machine wasn't quiet")
    return f"**Provisional: {'; '.join(notes)}.**" if notes else ""


def shown(values: Sequence[float], digits: int) -> str:
    """Median and range."""
    of = spread(values)
    return f"{of.median:.{digits}f} ({of.least:.{digits}f}..{of.most:.{digits}f})"
