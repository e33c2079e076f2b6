"""Which settings are the fastest here: each is tried before the rounds, with what will be asked."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeAlias

from tests.bench.cells import run_cell
from tests.bench.peer import PeerSettings
from tests.bench.sides import WARM
from tests.bench.target import Target
from tests.bench.workloads import Sizes, Workload

Family: TypeAlias = Literal["distinct", "shared"]
FAMILIES: tuple[Family, ...] = ("distinct", "shared")
TRIED_STREAMS = 8
TRIED = Sizes()
Tried: TypeAlias = dict[Family, dict[PeerSettings, list[float]]]
Opened: TypeAlias = Callable[[PeerSettings], AbstractAsyncContextManager[Target]]


def family_of(workload: Workload) -> Family:
    """Which trial decides: prompts that share a prefix, or prompts that don't."""
    return "shared" if workload == "shared" else "distinct"


async def try_each(
    choices: Sequence[PeerSettings],
    opened: Opened,
    seed: str,
    num: int,
    say: Callable[[str], None],
) -> Tried:
    """Tokens/s of each of `choices` at 8 streams, `num` times by family, one target at a time."""
    found: Tried = {family: {settings: [] for settings in choices} for family in FAMILIES}
    for number in range(num):
        order = list(choices)
        random.Random(f"{seed}/tried/{number}").shuffle(order)
        for settings in order:
            async with opened(settings) as target:
                await run_cell(target, "distinct", 1, "warm", WARM)
                for family in FAMILIES:
                    cell_seed = f"{seed}/tried/{number}/{family}"
                    figures = await run_cell(target, family, TRIED_STREAMS, cell_seed, TRIED)
                    found[family][settings].append(figures.tps)
                    say(f"{target.name}, {settings}: {family} {figures.tps:.1f} tokens/s")
    return found


def pick(tried: Mapping[PeerSettings, Sequence[float]]) -> PeerSettings:
    """The settings with the highest median."""
    return max(tried, key=lambda settings: statistics.median(tried[settings]))


def pick_one(tried: Tried) -> PeerSettings:
    """The settings that are best for all families, each counting as much as the others."""

    def gain(settings: PeerSettings) -> float:
        return math.prod(statistics.median(of[settings]) for of in tried.values())

    return max(tried[FAMILIES[0]], key=gain)
