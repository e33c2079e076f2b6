"""What is measured in a run: each side is loaded all the time, and only one is asked at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Protocol

import psutil

from inference.protocol.spec import EngineSpec
from tests.bench import processes
from tests.bench.cells import run_cell
from tests.bench.figures import Figures
from tests.bench.http_target import HttpTarget
from tests.bench.local_target import LocalTarget
from tests.bench.target import Target
from tests.bench.workloads import WORKLOADS, Sizes, Workload
from tests.stack import Stack

PRODUCT, ENGINE, PEER, LOOP = "product", "engine", "peer", "loop"
MOCK_REPLY = "The quick brown fox jumps over the lazy dog. " * 4
WARM = Sizes(max_tokens=4, requests=1)


class Side(Protocol):
    """`workloads` it takes part in; `home`: the processes it computes in, which sides may share."""

    name: str
    home: str
    workloads: tuple[Workload, ...]

    def cpu_s(self) -> float:
        """CPU seconds used so far; what it uses while another side is asked disturbs that one."""
        ...

    async def measure(
        self, workload: Workload, concurrency: int, seed: str, sizes: Sizes
    ) -> Figures:
        """See `run_cell`."""
        ...


class TargetSide:
    """A side that answers chats. `target_of` a workload: most have one for all."""

    workloads = WORKLOADS

    def __init__(
        self,
        name: str,
        target_of: Callable[[Workload], Target],
        cpu_s: Callable[[], float],
        home: str = "",
    ) -> None:
        self.name = name
        self.home = home or name
        self._target_of = target_of
        self._cpu_s = cpu_s

    def cpu_s(self) -> float:
        """See `Side.cpu_s`."""
        return self._cpu_s()

    async def measure(
        self, workload: Workload, concurrency: int, seed: str, sizes: Sizes
    ) -> Figures:
        """See `Side.measure`."""
        return await run_cell(self._target_of(workload), workload, concurrency, seed, sizes)

    async def warm_up(self) -> TargetSide:
        """Answer once for each workload; returns itself."""
        for target in {id(t): t for t in map(self._target_of, self.workloads)}.values():
            await run_cell(target, "distinct", 1, "warm", WARM)
        return self


@asynccontextmanager
async def local_target(spec: EngineSpec) -> AsyncIterator[Target]:
    """An engine in this process, and nothing of it behind the block."""
    engine = LocalTarget.load(spec)
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def engine_side(spec: EngineSpec) -> AsyncIterator[Side]:
    """The engine in this process."""
    async with local_target(spec) as engine:
        side = TargetSide(ENGINE, lambda _: engine, processes.own_thread_cpu_s)
        yield await side.warm_up()


@asynccontextmanager
async def product_side(spec: EngineSpec, folder: Path) -> AsyncIterator[tuple[Side, Stack]]:
    """The whole server with the same engine; its data goes to `folder`."""
    with Stack(folder / "data", env=product_env(spec)) as stack:
        stack.wait_ready()
        if spec.flash_attention != "auto":
            _set_flash_attention(stack, spec.flash_attention)
        target = HttpTarget(stack.base_url, stack.create_key(), name=PRODUCT)
        side = TargetSide(PRODUCT, lambda _: target, lambda: processes.cpu_s(stack.snapshot()))
        yield await side.warm_up(), stack


def _set_flash_attention(stack: Stack, value: str) -> None:
    """As an administrator would; the new start loads the model with it."""
    code = (
        "from inference.models import ModelConfig; "
        f"ModelConfig.objects.update(flash_attention={value!r})"
    )
    stack.manage("shell", "--no-imports", "-c", code)
    stack.stop()
    stack.start()
    stack.wait_ready()


def product_env(spec: EngineSpec) -> dict[str, str]:
    """Variables that give the product the same engine."""
    return {
        "LLAMAWEB_ENGINE": spec.engine_class,
        "LLAMAWEB_MODEL": spec.model_path,
        "LLAMAWEB_MOCK_REPLY": MOCK_REPLY,
        "LLAMAWEB_ENGINE_SLOTS": str(spec.num_slots),
        "LLAMAWEB_ENGINE_CONTEXT": str(spec.context_len),
        "LLAMAWEB_ENGINE_THREADS": str(spec.threads),
        "LLAMAWEB_ENGINE_CACHE_MIB": str(spec.cache_ram_mib),
    }


def client_memory() -> processes.Memory:
    """Of this process, which holds the in-process engine and the client."""
    return processes.memory_of(psutil.Process(), "engine in-process, client")
