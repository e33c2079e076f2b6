"""One supervised engine: started, watched, told about, ended. The process is a scripted double."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inference.protocol.requests import GenerateRequest, TextPrompt
from inference.queues.contract import Beat
from inference.queues.memory import MemoryQueue
from inference.supervisor import engine as module
from inference.supervisor.engine import SupervisedEngine
from inference.supervisor.housekeeping import DISPATCH_AGAIN_S, Housekeeping
from inference.supervisor.specs import Tuning
from inference.supervisor.trial_process import TrialSeat
from llamaweb.lib.clock import ManualClock
from llamaweb.lib.errors import FailedError

CONFIG = SimpleNamespace(name="m", pk=1, updated_at=1, engine_class="mock")


class FakeProcess:
    """Lives until told what to exit with."""

    def __init__(self, spec: Any) -> None:
        self.spec, self.pid, self.lived_s, self.last_line = spec, 1, 1.0, "last words"
        self.log_tail = ("first words", "last words")
        self.code: int | None = None
        self.signals: list[str] = []

    def poll(self) -> int | None:
        return self.code

    def drain(self) -> None:
        self.signals.append("USR1")

    def terminate(self) -> None:
        self.signals.append("TERM")

    def kill(self) -> None:
        self.signals.append("KILL")
        self.code = -9

    def wait(self, _timeout_s: float) -> bool:
        return self.code is not None


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        self.queue = MemoryQueue(clock=self.clock)
        self.started: list[FakeProcess] = []
        self.spec_error: FailedError | None = None
        monkeypatch.setattr(module, "EngineProcess", self._start)
        monkeypatch.setattr(module, "engine_redis_url", lambda _model: "")
        monkeypatch.setattr(module, "engine_spec", self._spec)
        self.engine = SupervisedEngine(CONFIG, self.queue, TrialSeat())  # type: ignore[arg-type]

    def _spec(
        self, _config: Any, *, redis_url: str, tuning: Tuning, shares: tuple[int, ...]
    ) -> Any:
        if self.spec_error is not None:
            raise self.spec_error
        return SimpleNamespace(
            engine_id=f"e{len(self.started)}",
            use_extra_bufts=tuning.use_extra_bufts,
            tensor_split=shares,
        )

    def _start(self, spec: Any) -> FakeProcess:
        self.started.append(FakeProcess(spec))
        return self.started[-1]

    def beat(self, steps: int, *, waiting: bool = True) -> None:
        beat = Beat(self.started[-1].spec.engine_id, "ready", steps, waiting_for_step=waiting)
        self.queue.beat("m", beat)

    def submit(self) -> str:
        now = self.clock.wall()
        request = GenerateRequest(
            "g", "m", "user:1", "user:1", TextPrompt("x"), 1, now, now + 999, keep=True,
            on_finish="generation_finalise",
        )  # fmt: skip
        self.queue.submit(request)
        return request.generation_id


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_a_crash_ends_its_leases_and_starts_again_after_the_delay(world: World) -> None:
    gid = world.submit()
    world.engine.look_after(0.0)
    (process,) = world.started
    world.queue.claim("m", process.spec.engine_id, slots=1, idle=True)
    process.code = -11
    world.engine.look_after(10.0)
    status = world.queue.status("m", gid)
    assert status is not None
    assert (status.state, status.deaths) == ("queued", 1)
    world.engine.look_after(10.5)
    assert len(world.started) == 1
    world.engine.look_after(11.0)
    assert len(world.started) == 2


def test_an_illegal_instruction_restarts_with_the_buffers_off(world: World) -> None:
    world.engine.look_after(0.0)
    world.started[0].code = -4
    world.engine.look_after(1.0)
    world.engine.look_after(1.0)
    assert [process.spec.use_extra_bufts for process in world.started] == [True, False]


def test_what_it_knows_is_told(world: World) -> None:
    world.engine.look_after(0.0)
    world.started[0].code = 3
    world.engine.look_after(1.0)
    told = {engine.engine_id: engine for engine in world.queue.engines("m")}["supervisor"]
    assert (told.state, told.info["reason"]) == ("stopped", "last words")
    assert world.engine.unservable_reason == "last words"


def test_a_missing_model_is_unservable_until_it_appears(world: World) -> None:
    world.spec_error = FailedError("no such file")
    world.engine.look_after(0.0)
    assert world.engine.unservable_reason == "no such file"
    gid = world.submit()
    Housekeeping(world.queue, lambda *_: None).refuse("m", "no such file")
    status = world.queue.status("m", gid)
    assert status is not None
    assert status.state == "ended"


@pytest.mark.parametrize("kind", ["stuck", "silent", "mute from the start"])
def test_the_watchdog_kills_what_makes_no_step(world: World, kind: str) -> None:
    world.engine.look_after(0.0)
    if kind != "mute from the start":
        world.beat(steps=7)
        world.engine.watch()
    for _ in range(module.WATCHDOG_LOOKS):
        world.clock.advance(1.0)
        if kind == "stuck":
            world.beat(steps=7)
        world.engine.watch()
    assert world.started[0].signals == []
    world.clock.advance(1.0)
    world.engine.watch()
    assert world.started[0].signals[:1] == ["KILL"]


@pytest.mark.parametrize("waiting", [True, False])
def test_the_watchdog_leaves_steps_and_idleness_alone(world: World, waiting: bool) -> None:
    world.engine.look_after(0.0)
    for step in range(3 * module.WATCHDOG_LOOKS):
        world.clock.advance(1.0)
        world.beat(steps=step if waiting else 0, waiting=waiting)
        world.engine.watch()
    assert world.started[0].signals == []


def test_an_ended_engine_drains_is_killed_when_late_and_stays_ended(world: World) -> None:
    world.engine.look_after(0.0)
    world.engine.end(10.0)
    world.engine.end(11.0)
    assert world.started[0].signals == ["TERM"]
    world.engine.look_after(10.0 + module.STOP_S + 0.1)
    assert world.started[0].signals == ["TERM", "KILL"]
    world.engine.look_after(20.0)
    world.engine.look_after(99.0)
    assert len(world.started) == 1


def test_a_result_is_dispatched_until_it_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, str]] = []
    now = [0.0]
    monkeypatch.setattr("inference.supervisor.housekeeping.time.monotonic", lambda: now[0])
    keeping = Housekeeping(world.queue, lambda name, gid: sent.append((name, gid)))
    gid = world.submit()
    world.queue.cancel("m", gid, "user")
    keeping.dispatch()
    keeping.dispatch()
    assert sent == [("generation_finalise", gid)]
    now[0] += DISPATCH_AGAIN_S
    keeping.dispatch()
    assert len(sent) == 2
    world.queue.finished_ack("m", gid)
    now[0] += DISPATCH_AGAIN_S
    keeping.dispatch()
    assert len(sent) == 2


def running(world: World) -> FakeProcess:
    """A ready engine."""
    world.engine.look_after(0.0)
    world.beat(1, waiting=False)
    world.engine.observe(world.queue.engines("m"), 1.0)
    assert world.engine.state == "ready"
    return world.started[-1]


def test_a_restart_drains_and_starts_again_in_its_place(world: World) -> None:
    process = running(world)
    world.engine.renew(10.0)
    world.engine.renew(11.0)
    assert (process.signals, world.engine.state) == (["USR1"], "renewing")
    world.engine.look_after(69.0)
    assert process.signals == ["USR1"]
    process.code = 0
    world.engine.look_after(69.5)
    world.engine.look_after(69.5)
    assert len(world.started) == 2
    assert world.engine.state == "loading"
    assert (world.engine.counts["loads"], world.engine.restart.failures) == (2, 0)


def test_what_takes_too_long_before_a_restart_is_handed_over_then_killed(world: World) -> None:
    process = running(world)
    world.engine.renew(10.0)
    world.engine.look_after(70.5)
    assert process.signals == ["USR1", "TERM"]  # it gives its answers back and ends
    world.engine.look_after(76.5)
    assert process.signals[-1] == "KILL"
    world.engine.look_after(77.0)
    world.engine.look_after(77.0)
    assert len(world.started) == 2
    assert world.engine.counts["load_failures"] == 0


def test_a_restart_of_one_that_loads_or_is_down_waits_for_nothing(world: World) -> None:
    world.engine.look_after(0.0)
    world.engine.renew(1.0)
    world.engine.look_after(1.5)
    assert world.started[0].signals == ["USR1", "TERM"]
    world.started[0].code = 0
    world.engine.look_after(2.0)
    world.engine.look_after(2.0)
    world.started[1].code = -11
    world.engine.look_after(3.0)
    world.engine.look_after(3.0)
    assert len(world.started) == 2  # it waits before the next start
    world.engine.renew(3.1)
    world.engine.look_after(3.1)
    assert len(world.started) == 3


def test_an_engine_that_leaves_or_ends_is_not_restarted(world: World) -> None:
    process = running(world)
    world.engine.leave(2.0)
    world.engine.renew(3.0)
    process.code = 0
    world.engine.look_after(4.0)
    world.engine.look_after(4.0)
    assert (len(world.started), world.engine.state) == (1, "off")


def test_an_engine_that_leaves_while_it_is_restarted_leaves(world: World) -> None:
    process = running(world)
    world.engine.renew(2.0)
    world.engine.leave(3.0)
    assert world.engine.state == "draining"
    process.code = 0
    for now in (4.0, 4.5):
        world.engine.look_after(now)
    assert (len(world.started), world.engine.state) == (1, "off")


def test_the_log_of_a_living_engine_is_told(world: World) -> None:
    process = running(world)
    process.log_tail = tuple(f"line {no} " + "x" * 400 for no in range(50))
    world.engine.tell()
    told = {engine.engine_id: engine for engine in world.queue.engines("m")}["supervisor"]
    tail = str(told.info["tail"])
    assert len(tail) <= 4000
    assert tail.startswith("line 4")
    assert tail.endswith(process.log_tail[-1])
