"""The peer at its best: its settings are tried first, the fastest ones are measured."""

from __future__ import annotations

import random
import statistics
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal, TypeAlias

from inference.protocol.spec import EngineSpec
from tests.bench.cells import run_cell
from tests.bench.peer import ALL_SETTINGS, LlamaServer, PeerSettings
from tests.bench.sides import PEER, WARM, TargetSide
from tests.bench.target import Target
from tests.bench.workloads import Sizes, Workload

Family: TypeAlias = Literal["distinct", "shared"]
FAMILIES: tuple[Family, ...] = ("distinct", "shared")
TRIED_STREAMS = 8
TRIED = Sizes(requests=TRIED_STREAMS)
Start: TypeAlias = Callable[[PeerSettings], LlamaServer]
Tried: TypeAlias = dict[Family, dict[PeerSettings, list[float]]]


def starter(binary: Path, spec: EngineSpec, folder: Path, *, has_template: bool) -> Start:
    """How a server with some settings is started."""
    return lambda settings: LlamaServer(binary, spec, settings, folder, has_template=has_template)


def family_of(workload: Workload) -> Family:
    """Which trial decides: prompts that share a prefix, or prompts that don't."""
    return "shared" if workload == "shared" else "distinct"


async def try_all(start: Start, seed: str, num: int, say: Callable[[str], None]) -> Tried:
    """Tokens/s of every setting at 8 streams, `num` times by family, one server at a time."""
    found: Tried = {family: {settings: [] for settings in ALL_SETTINGS} for family in FAMILIES}
    for number in range(num):
        order = list(ALL_SETTINGS)
        random.Random(f"{seed}/tried/{number}").shuffle(order)
        for settings in order:
            with start(settings) as server:
                await run_cell(server.target, "distinct", 1, "warm", WARM)
                for family in FAMILIES:
                    cell_seed = f"{seed}/tried/{number}/{family}"
                    figures = await run_cell(server.target, family, TRIED_STREAMS, cell_seed, TRIED)
                    found[family][settings].append(figures.tps)
                    say(f"peer, {settings}: {family} {figures.tps:.1f} tokens/s")
    return found


def pick(tried: Mapping[PeerSettings, Sequence[float]]) -> PeerSettings:
    """The settings with the highest median."""
    return max(tried, key=lambda settings: statistics.median(tried[settings]))


@asynccontextmanager
async def peer_side(
    start: Start, picked: Mapping[Family, PeerSettings]
) -> AsyncIterator[tuple[TargetSide, list[LlamaServer]]]:
    """One server for each of the picked settings."""
    with ExitStack() as stack:
        servers = {
            settings: stack.enter_context(start(settings))
            for settings in sorted(set(picked.values()))
        }

        def target_of(workload: Workload) -> Target:
            return servers[picked[family_of(workload)]].target

        def cpu_s() -> float:
            return sum(server.cpu_s() for server in servers.values())

        side = TargetSide(PEER, target_of, cpu_s)
        yield await side.warm_up(), list(servers.values())
