"""The peer at its best: its settings are tried first, the fastest ones are measured."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

from inference.protocol.spec import EngineSpec
from tests.bench.peer import ALL_SETTINGS, LlamaServer, PeerSettings
from tests.bench.sides import PEER, TargetSide
from tests.bench.target import Target
from tests.bench.trials import Family, Tried, family_of, try_each
from tests.bench.workloads import Workload

Start: TypeAlias = Callable[[PeerSettings], LlamaServer]


def starter(binary: Path, spec: EngineSpec, folder: Path, *, has_template: bool) -> Start:
    """How a server with some settings is started."""
    return lambda settings: LlamaServer(binary, spec, settings, folder, has_template=has_template)


async def try_all(start: Start, seed: str, num: int, say: Callable[[str], None]) -> Tried:
    """See `try_each`, of all its settings."""

    @asynccontextmanager
    async def opened(settings: PeerSettings) -> AsyncIterator[Target]:
        with start(settings) as server:
            yield server.target

    return await try_each(ALL_SETTINGS, opened, seed, num, say)


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
