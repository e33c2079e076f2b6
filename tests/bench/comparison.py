"""`make bench-engine`: engine, product, llama-server and a bare loop, side by side.

One model after the other; within one, all sides stay loaded from its first round to its last.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from inference.protocol.spec import EngineSpec
from tests.bench import peer, processes
from tests.bench.figures import BenchError
from tests.bench.llama_loop import loop_side
from tests.bench.machine import machine_facts, today
from tests.bench.models import BenchModel
from tests.bench.peer import ALL_SETTINGS, PeerSettings
from tests.bench.peer_side import peer_side, starter, try_all
from tests.bench.processes import Memory
from tests.bench.results import Record
from tests.bench.rounds import NUM_SLOTS, Plan, Round, Say, check_idle, run_round
from tests.bench.sides import (
    ENGINE,
    LOOP,
    PEER,
    PRODUCT,
    Side,
    client_memory,
    engine_side,
    local_target,
    product_side,
)
from tests.bench.target import Target
from tests.bench.trials import FAMILIES, Tried, pick, pick_one, try_each

TARGETS = (ENGINE, PRODUCT, PEER, LOOP)
CONTEXT_LEN = 5120  # a slot: holds the prompt of `arrive`
GIB_MIB = 1024
OWN_SETTINGS = tuple(settings for settings in ALL_SETTINGS if not settings.kv_unified)
SIDE_MIB = 2 * GIB_MIB  # weights, KV cache and processes of one side, and some air
OnRecord = Callable[[Record], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What to compare. `binary` of llama-server, None without it; `num_tries` of each of its
    settings and ours; `cache_mib`: host cache of every side, 0: llama-server's default, or what the
    memory of the machine allows."""

    plan: Plan
    targets: tuple[str, ...]
    binary: Path | None
    num_tries: int
    cache_mib: int = 0


def run(
    comparison: Comparison,
    models: Sequence[BenchModel],
    folder: Path,
    say: Say,
    on_record: OnRecord,
    known: Mapping[str, Record] | None = None,
) -> None:
    """Measure every model; `on_record` gets each round as soon as it is there.

    `known`: a round that was measured before, by model; what was tried for it isn't tried again.

    Raises:
        BenchError: an answer was too short, the prompts differ, or a side not asked computed.
    """
    for model in models:
        own_folder = folder / model.name
        own_folder.mkdir()
        before = (known or {}).get(model.name)
        asyncio.run(_run_model(comparison, model, own_folder, say, on_record, before))


async def _run_model(
    comparison: Comparison,
    model: BenchModel,
    folder: Path,
    say: Say,
    on_record: OnRecord,
    before: Record | None,
) -> None:
    plan, spec = comparison.plan, _spec(comparison, model)
    if before is not None:
        tried, own = before.tried, before.own
    else:
        tried, own = await _try_settings(comparison, model, spec, folder, say)
    if own:
        # Calibration, which looks for it by itself, is off: a gain near its threshold is taken in
        # one run and not in the next.
        spec = with_flash(spec, pick_one(own))
    facts = _facts(comparison, model, spec)
    rounds: list[Round] = []
    async with _sides(comparison, model, spec, folder, tried, say) as (sides, memory):
        for number in range(plan.rounds):
            started_ts = time.monotonic()
            round_ = await run_round(plan, number, sides, lambda text: say(f"{model.name} {text}"))
            took_s = time.monotonic() - started_ts
            say(f"{model.name} round {number} done in {took_s:.0f} s, {plan.rounds} in all")
            rounds.append(round_)
            check_idle(plan, rounds)
            on_record(
                Record(
                    model=model.name,
                    date=today(),
                    seed=plan.seed,
                    threads=spec.threads,
                    step_ms=spec.step_target_ms,
                    facts=facts,
                    tried=tried,
                    own=own,
                    round=round_,
                    memory=memory(),
                )
            )


async def _try_settings(
    comparison: Comparison, model: BenchModel, spec: EngineSpec, folder: Path, say: Say
) -> tuple[Tried, Tried]:
    """The peer's and the engine's: the kernel that is the best one for it needn't be ours, whose
    batches are others. Nothing without the peer."""
    if comparison.binary is None:
        return {}, {}

    def opened(settings: PeerSettings) -> AbstractAsyncContextManager[Target]:
        return local_target(with_flash(spec, settings))

    def told(text: str) -> None:
        say(f"{model.name} {text}")

    start = starter(comparison.binary, spec, folder, has_template=model.has_template)
    seed, num = comparison.plan.seed, comparison.num_tries
    tried = await try_all(start, seed, num, told)
    return tried, await try_each(OWN_SETTINGS, opened, seed, num, told)


def with_flash(spec: EngineSpec, settings: PeerSettings) -> EngineSpec:
    """`spec` with the flash attention of `settings`."""
    return dataclasses.replace(spec, flash_attention="on" if settings.flash_attention else "off")


@asynccontextmanager
async def _sides(
    comparison: Comparison,
    model: BenchModel,
    spec: EngineSpec,
    folder: Path,
    tried: Tried,
    say: Say,
) -> AsyncIterator[tuple[list[Side], Callable[[], list[Memory]]]]:
    """All sides, loaded and warm, and who tells their memory."""
    sides: list[Side] = []
    memories: list[Callable[[], list[Memory]]] = []
    async with AsyncExitStack() as stack:
        if PRODUCT in comparison.targets:
            product, server = await stack.enter_async_context(product_side(spec, folder))
            sides.append(product)
            memories.append(lambda: processes.memory_of_stack(server))
        if comparison.binary is not None:
            start = starter(comparison.binary, spec, folder, has_template=model.has_template)
            picked = {family: pick(tried[family]) for family in FAMILIES}
            say(f"{model.name} peer: " + "; ".join(f"{k}: {v}" for k, v in picked.items()))
            its_side, servers = await stack.enter_async_context(peer_side(start, picked))
            sides.append(its_side)
            memories.append(lambda: [each.memory() for each in servers])
        if LOOP in comparison.targets:
            sides.append(await stack.enter_async_context(loop_side(spec)))
        if ENGINE in comparison.targets:
            sides.append(await stack.enter_async_context(engine_side(spec)))
            memories.append(lambda: [client_memory()])
        yield sides, lambda: [memory for tell in memories for memory in tell()]


def _spec(comparison: Comparison, model: BenchModel) -> EngineSpec:
    """The engine that all sides are set up like."""
    return EngineSpec(
        model="bench",
        engine_id="bench",
        redis_url="",
        redis_prefix="",
        model_path=str(model.path()),
        num_slots=NUM_SLOTS,
        context_len=CONTEXT_LEN,
        threads=comparison.plan.threads,
        cache_ram_mib=comparison.cache_mib or host_cache_mib(comparison),
    )


def host_cache_mib(comparison: Comparison) -> int:
    """What each side may keep of evicted prompts: llama-server's default, halved until all that
    is loaded finds room in memory.

    Raises:
        BenchError: nothing does.
    """
    # The peer may be two servers, one for each of its picked settings; the loop caches nothing.
    num_sides = len(set(comparison.targets) - {LOOP}) + (PEER in comparison.targets)
    free_mib = int(psutil.virtual_memory().available) // processes.MIB
    most = (free_mib - num_sides * SIDE_MIB) // max(1, num_sides)
    if most <= 0:
        raise BenchError(f"{free_mib} MiB of memory are too few for {num_sides} sides")
    default = peer.default_cache_mib(comparison.binary) if comparison.binary else most
    return fitting_mib(default, most)


def fitting_mib(default: int, most: int) -> int:
    """`default` (below 0: without a limit), halved until it is no more than `most`."""
    size = default if default >= 0 else most
    while size > most:
        size //= 2
    return size


def _facts(comparison: Comparison, model: BenchModel, spec: EngineSpec) -> dict[str, str]:
    sizes = comparison.plan.sizes
    found = {
        **machine_facts(),
        "model": model.title,
        "slots": f"{spec.num_slots}, {spec.context_len} tokens each, on all sides",
        "threads": f"{spec.threads} on all sides",
        "flash attention": f"{spec.flash_attention} in engine, product and loop",
        "step setting": f"{spec.step_target_ms:.0f} ms",
        "requests": ", ".join(f"{sizes.num_requests(n)} at {n} streams" for n in (1, 4, 8)),
        "new tokens an answer": f"{sizes.max_tokens}, in a conversation {sizes.turn_tokens}",
        "conversations": f"{sizes.conversations}, {sizes.turns} turns each",
    }
    if comparison.binary is not None:
        default = peer.default_cache_mib(comparison.binary)
        found["llama-server"] = peer.version(comparison.binary)
        found["host cache"] = (
            f"{spec.cache_ram_mib} MiB on all sides (llama-server's default: {default})"
        )
    return found
