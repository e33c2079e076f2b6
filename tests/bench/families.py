"""`python -m tests.bench families`: what HTTP costs over the engine in this process, by API family.

One server and one engine, loaded all the time; in each cell every family and the engine answer the
same prompts, in an order drawn anew. A mock that takes no time shows what the path can do at most,
one that is as fast as a good GPU what it adds to each token, and a model what of it is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from inference.protocol.spec import EngineSpec
from tests.bench import processes
from tests.bench.figures import Figures
from tests.bench.forms import FORMS
from tests.bench.http_target import HttpTarget
from tests.bench.local_target import LocalTarget
from tests.bench.rounds import Key, Plan, Round, Say, check_idle, engine_spec, run_round
from tests.bench.sides import ENGINE, PRODUCT, Side, TargetSide, product_env
from tests.bench.target import Target
from tests.bench.workloads import Chat, Sizes, Workload
from tests.stack import Stack

# Most families can't be told to go on behind an end token.
WORKLOADS: tuple[Workload, ...] = ("story",)
ROUNDS = 3
MARK = "[what the user says]"
MS = 1e3


@dataclass(frozen=True, slots=True)
class Pace:
    """An engine to measure with. `delay_ms` of a step, of the mock. With a model most of the time
    is its own, so less of it is asked."""

    title: str
    engine_class: str
    delay_ms: float
    concurrency: tuple[int, ...]
    sizes: Sizes

    def plan(self, *, rounds: int, seed: str, threads: int) -> Plan:
        """What is run with it."""
        return Plan(
            rounds=rounds,
            concurrency=self.concurrency,
            workloads=WORKLOADS,
            seed=seed,
            threads=threads,
            engine_class=self.engine_class,
            sizes=self.sizes,
        )


CLOSED = Sizes(max_tokens=64, waves=4)
PACES = (
    Pace("the mock engine, without delay", "mock", 0.0, (1, 8), CLOSED),
    Pace("the mock engine, 5 ms a step", "mock", 5.0, (1, 8), CLOSED),
    Pace("the starter model", "llama", 0.0, (1,), Sizes(max_tokens=16, waves=4)),
)
ENGINES = ("mock", "llama")


@dataclass(slots=True)
class FamiliesRun:
    """What came out at one pace. `web_ms`: CPU of the web process a token, by cell, in the order of
    the rounds."""

    title: str
    plan: Plan
    spec: EngineSpec
    rounds: list[Round] = field(default_factory=list)
    web_ms: dict[Key, list[float]] = field(default_factory=dict)


class FamilySide(TargetSide):
    """The product, asked in one family; `on_web_ms` gets the web process's CPU of each cell, in
    milliseconds a token."""

    workloads = WORKLOADS

    def __init__(
        self, target: Target, stack: Stack, on_web_ms: Callable[[Key, float], None]
    ) -> None:
        super().__init__(
            target.name, lambda _: target, lambda: processes.cpu_s(stack.snapshot()), home=PRODUCT
        )
        self._web = stack.processes("web")
        self._on_web_ms = on_web_ms

    async def measure(
        self, workload: Workload, concurrency: int, seed: str, sizes: Sizes
    ) -> Figures:
        """See `Side.measure`."""
        before_s = processes.exact_cpu_s(self._web)
        figures = await super().measure(workload, concurrency, seed, sizes)
        num_tokens = sizes.num_requests(concurrency) * sizes.max_tokens
        spent_ms = (processes.exact_cpu_s(self._web) - before_s) * MS
        self._on_web_ms(Key(workload, concurrency, self.name), spent_ms / num_tokens)
        return figures


def measure(pace: Pace, plan: Plan, folder: Path, say: Say) -> FamiliesRun:
    """Start engine and product, ask both, end both; `folder` is new.

    Raises:
        BenchError: an answer was too short, the prompts differ, or the idle side computed.
    """
    spec = engine_spec(plan)
    run = FamiliesRun(
        pace.title, plan, replace(spec, mock=replace(spec.mock, delay_ms=pace.delay_ms))
    )
    folder.mkdir()
    env = {**product_env(run.spec), "LLAMAWEB_MOCK_DELAY_MS": str(pace.delay_ms)}
    with Stack(folder / "data", env=env) as server:
        server.wait_ready()
        asyncio.run(measure_on(server, run, say))
    return run


async def measure_on(server: Stack, run: FamiliesRun, say: Say) -> None:
    """As `measure`, with a server that runs already."""
    async with _sides(server, run) as sides:
        for number in range(run.plan.rounds):
            run.rounds.append(await run_round(run.plan, number, sides, say))
        check_idle(run.plan, run.rounds)


@asynccontextmanager
async def _sides(server: Stack, run: FamiliesRun) -> AsyncIterator[list[Side]]:
    """The engine here, and a side for each family of the server; all are warm."""

    def note(key: Key, web_ms: float) -> None:
        run.web_ms.setdefault(key, []).append(web_ms)

    keys = _keys(server)
    engine = LocalTarget.load(run.spec)
    try:
        render = _renderer(engine)
        here = TargetSide(ENGINE, lambda _: engine, processes.own_thread_cpu_s)
        here.workloads = WORKLOADS
        sides = [here]
        for form, key in zip(FORMS, keys, strict=True):
            target = HttpTarget(server.base_url, key, name=form.name, form=form, render=render)
            sides.append(FamilySide(target, server, note))
        yield [await side.warm_up() for side in sides]
    finally:
        await engine.close()


def _keys(server: Stack) -> list[str]:
    """A key of a user of its own for each family: what was computed for one isn't reused for
    another, who asks the same."""
    code = (
        "from django.contrib.auth import get_user_model as model\n"
        "from llamaweb.accounts.services import api_key_create\n"
        f"for number in range({len(FORMS)}):\n"
        "    user = model().objects.create_superuser(f'bench-{number}')\n"
        "    print(api_key_create(user=user, name='bench')[1])"
    )
    return server.manage("shell", "--no-imports", "-c", code).split()[-len(FORMS) :]


def _renderer(engine: LocalTarget) -> Callable[[Chat], str]:
    """What makes of a chat the text that the template makes of it, in no time; the chats here are
    one message of the user's."""
    before, after = engine.render((("user", MARK),)).split(MARK)
    return lambda messages: f"{before}{messages[0][1]}{after}"
