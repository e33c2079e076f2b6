"""Orders to the loop name the lease they mean; late and early ones do no harm."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from inference.engine.engine import Engine
from inference.protocol.events import Cancelled, Event, Failed, Finished
from inference.worker.inbox import Abort, Add, Drop, Fail
from inference.worker.loop import Loop
from inference.worker.running import LeaseEvent
from tests.engine.driving import ask, make_engine

OLD, NEW = 1, 2


class Sink:
    """What the loop hands out; stops the loop when everything has ended."""

    def __init__(self) -> None:
        self.events: list[LeaseEvent] = []

    def put(self, events: Sequence[LeaseEvent]) -> None:
        self.events.extend(events)

    def ends(self) -> list[tuple[int, Event]]:
        ended = (Finished, Failed, Cancelled)
        return [(item.epoch, item.event) for item in self.events if isinstance(item.event, ended)]


class Room:
    def __init__(self) -> None:
        self.engine: Engine = make_engine()
        self.sink = Sink()
        self.loop = Loop(self.engine, self.sink)  # type: ignore[arg-type]

    def turn(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.loop._take_in()
            if self.engine.has_work:
                self.loop._hand_out(self.engine.step())


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr("inference.worker.loop.IDLE_WAIT_S", 0.001)
    return Room()


def test_a_drop_of_the_old_lease_leaves_the_new_one_alone(room: Room) -> None:
    room.loop.hand_over(Add(ask("g", "abc"), NEW))
    room.loop.hand_over(Drop("g", OLD))
    room.turn(20)
    assert [(epoch, type(event)) for epoch, event in room.sink.ends()] == [(NEW, Finished)]


def test_a_newer_lease_replaces_the_older_one(room: Room) -> None:
    room.loop.hand_over(Add(ask("g", "abc"), OLD))
    room.turn(2)
    room.loop.hand_over(Add(ask("g", "abc"), NEW))
    room.turn(20)
    assert [epoch for epoch, _ in room.sink.ends()] == [NEW]
    assert room.engine.free_slots == 4


def test_an_older_lease_that_took_longer_to_prepare_comes_too_late(room: Room) -> None:
    room.loop.hand_over(Add(ask("g", "abc"), NEW))
    room.turn(2)
    room.loop.hand_over(Add(ask("g", "abc"), OLD))
    room.turn(20)
    assert [epoch for epoch, _ in room.sink.ends()] == [NEW]
    assert room.engine.free_slots == 4


def test_a_cancel_on_the_way_ends_it_and_the_late_arrival_is_ignored(room: Room) -> None:
    room.loop.hand_over(Abort("g", NEW, "user"))
    room.loop.hand_over(Add(ask("g", "abc"), NEW))
    room.turn(5)
    assert room.sink.ends() == [(NEW, Cancelled("user"))]
    assert room.engine.free_slots == 4


def test_a_lease_that_is_lost_on_the_way_takes_no_slot(room: Room) -> None:
    room.loop.hand_over(Drop("g", OLD))
    room.loop.hand_over(Add(ask("g", "abc"), OLD))
    room.turn(5)
    assert room.sink.events == []
    assert room.engine.free_slots == 4
    room.loop.hand_over(Add(ask("g", "abc"), NEW))
    room.turn(20)
    assert [(epoch, type(event)) for epoch, event in room.sink.ends()] == [(NEW, Finished)]


def test_a_deadline_ends_with_its_own_error_and_the_engines_usage(room: Room) -> None:
    room.loop.hand_over(Add(ask("g", "abcdef"), NEW))
    room.turn(3)
    room.loop.hand_over(Fail("g", NEW, Failed("deadline_exceeded", "late")))
    room.turn(1)
    ((epoch, event),) = room.sink.ends()
    assert isinstance(event, Failed)
    assert (epoch, event.code, event.usage.prompt_tokens) == (NEW, "deadline_exceeded", 6)
    assert event.usage.completion_tokens > 0


def test_orders_for_an_older_lease_change_nothing(room: Room) -> None:
    room.loop.hand_over(Add(ask("g", "abc"), NEW))
    room.loop.hand_over(Abort("g", OLD, "user"))
    room.loop.hand_over(Fail("g", OLD, Failed("deadline_exceeded", "late")))
    room.turn(20)
    assert [type(event) for _, event in room.sink.ends()] == [Finished]
