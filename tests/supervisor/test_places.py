"""An engine's place in memory: taken when it is told, given up by leaving or by failing to load."""

from __future__ import annotations

import pytest

from inference.protocol.reasons import Other, reason, reason_read
from inference.supervisor import engine as module
from inference.supervisor.engine import SupervisedEngine
from inference.supervisor.policy import MIN_DELAY_S, UNSERVABLE_RETRY_S
from inference.supervisor.trial_process import TrialSeat
from tests.supervisor.test_engine import CONFIG, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(monkeypatch)
    made.engine = SupervisedEngine(CONFIG, made.queue, TrialSeat(), is_placed=False)  # type: ignore[arg-type]
    return made


def observe(world: World, now: float) -> None:
    world.engine.observe(world.queue.engines("m"), now)


def started(world: World, *, ready: bool = True) -> None:
    world.engine.place()
    world.engine.look_after(0.0)
    if ready:
        world.beat(steps=0, waiting=False)
        observe(world, 1.0)


def told(world: World) -> tuple[str, dict[str, float | int | str]]:
    (status,) = [s for s in world.queue.engines("m") if s.engine_id == "supervisor"]
    return str(status.info["reason"]), dict(status.info)


def test_without_a_place_nothing_starts(world: World) -> None:
    world.engine.look_after(0.0)
    assert (world.engine.state, world.started) == ("off", [])
    started(world, ready=False)
    assert world.engine.state == "loading"
    world.beat(steps=0, waiting=False)
    observe(world, 7.0)
    assert (world.engine.state, world.engine.ready_ts) == ("ready", 7.0)


def test_it_is_told_where_to_lie(world: World) -> None:
    world.engine.place((1, 2))
    world.engine.look_after(0.0)
    assert world.started[0].spec.tensor_split == world.engine.shares == (1, 2)


def test_leaving_ends_what_runs_first_and_a_place_brings_it_back(world: World) -> None:
    started(world)
    world.engine.leave(10.0, is_evicted=True)
    world.engine.leave(11.0, is_evicted=True)
    assert (world.engine.state, world.started[0].signals) == ("draining", ["USR1"])
    world.engine.look_after(10.0 + module.STOP_S + 1)
    assert world.started[0].signals == ["USR1"]  # it has time
    world.started[0].code = 0
    world.engine.look_after(30.0)
    world.engine.look_after(31.0)
    assert (world.engine.state, len(world.started)) == ("off", 1)
    world.engine.place()
    world.engine.look_after(32.0)
    assert (world.engine.state, len(world.started)) == ("loading", 2)
    assert world.engine.counts == {"loads": 2, "evictions": 1, "load_failures": 0}


def test_one_that_never_ends_is_killed(world: World) -> None:
    started(world)
    world.engine.leave(10.0)
    world.engine.look_after(10.0 + module.DRAIN_S + 1)
    assert world.started[0].signals == ["USR1", "KILL"]


def test_a_load_nobody_wants_any_more_ends_at_once(world: World) -> None:
    started(world, ready=False)
    world.engine.leave(1.0)
    assert world.started[0].signals == ["TERM"]
    world.engine.look_after(1.0 + module.STOP_S + 1)
    world.engine.look_after(9.0)
    assert world.started[0].signals == ["TERM", "KILL"]
    assert (world.engine.state, world.engine.counts["load_failures"]) == ("off", 0)


def test_a_load_without_memory_gives_its_place_up_for_its_turn(world: World) -> None:
    started(world, ready=False)
    world.started[0].code = -9
    world.engine.look_after(5.0)
    assert (world.engine.state, world.engine.restart.is_short) == ("off", True)
    assert world.engine.unservable_reason is None  # what waits goes on waiting
    world.engine.place()
    world.engine.look_after(5.0 + MIN_DELAY_S)
    world.started[1].code = -9
    world.engine.look_after(9.0)
    assert world.engine.unservable_reason == "it died (SIGKILL); twice"
    said, info = (world.engine.tell(), told(world))[1]
    assert said == "it died (SIGKILL); twice"
    assert info["log"] == "first words\nlast words"
    assert info["load_failures"] == 2


def test_after_a_rest_who_asks_may_try_again(world: World) -> None:
    started(world, ready=False)
    world.started[0].code = 3
    world.engine.look_after(5.0)
    assert (world.engine.state, world.engine.unservable_reason) == ("off", "last words")
    world.engine.look_after(5.0 + UNSERVABLE_RETRY_S)
    assert world.engine.unservable_reason is None


def test_a_crash_of_a_ready_engine_keeps_its_place(world: World) -> None:
    started(world)
    world.started[0].code = -11
    world.engine.look_after(5.0)
    assert world.engine.state == "loading"
    assert world.engine.doing.startswith("down: engine died (SIGSEGV)")


def test_why_it_waits_is_told_while_it_has_no_place(world: World) -> None:
    why = reason("model m waits for memory: ", Other("a"), " is loading")
    world.engine.tell(why, facts={"on_demand": 1})
    said, info = told(world)
    assert (said, info["on_demand"]) == ("model m waits for memory: a is loading", 1)
    assert reason_read(info) == why
    started(world)
    world.engine.tell(reason("something old"))
    assert told(world)[0] == ""
