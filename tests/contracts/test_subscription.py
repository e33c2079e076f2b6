"""What a reader's buffer lets through joins on to its cursor, or it reads again."""

from __future__ import annotations

from inference.protocol.events import Entry
from inference.queues.contract import Cursor, Position, Read
from inference.queues.subscription import BUFFER_ENTRIES, Subscription
from tests.contracts.bench import delta


def caught_up(seq: int = 4) -> Subscription:
    subscription = Subscription("m", "g", Cursor(1, seq))
    subscription.begin_read()
    return subscription


def entry(seq: int) -> Entry:
    return Entry(seq, delta(str(seq)))


async def test_what_joins_on_comes_through() -> None:
    subscription = caught_up()
    subscription.offer(1, entry(5))
    subscription.offer(1, entry(6))
    assert subscription.take() == Read(Cursor(1, 6), (entry(5), entry(6)))
    assert subscription.take() is None
    assert not subscription.stale


async def test_repeats_are_dropped() -> None:
    subscription = caught_up()
    for seq in (3, 4, 5, 5, 6):
        subscription.offer(1, entry(seq))
    assert subscription.take() == Read(Cursor(1, 6), (entry(5), entry(6)))


async def test_a_hole_means_reading_again() -> None:
    subscription = caught_up()
    subscription.offer(1, entry(5))
    subscription.offer(1, entry(7))
    assert subscription.take() == Read(Cursor(1, 5), (entry(5),))
    assert subscription.stale
    subscription.offer(1, entry(8))
    assert subscription.take() is None


async def test_another_incarnation_means_reading_again() -> None:
    subscription = caught_up()
    subscription.offer(2, entry(5))
    assert subscription.take() is None
    assert subscription.stale


async def test_the_buffer_is_bounded() -> None:
    subscription = caught_up(-1)
    for seq in range(BUFFER_ENTRIES):
        subscription.offer(1, entry(seq))
    assert not subscription.stale
    subscription.offer(1, entry(BUFFER_ENTRIES))
    assert subscription.stale
    assert subscription.take() is None


async def test_what_comes_during_a_read_is_kept() -> None:
    subscription = caught_up()
    subscription.reread()
    subscription.begin_read()
    subscription.offer(1, entry(5))
    subscription.cursor = Cursor(1, 5)  # the read brought it too
    subscription.offer(1, entry(6))
    assert subscription.take() == Read(Cursor(1, 6), (entry(6),))


async def test_a_place_is_told_once() -> None:
    subscription = caught_up(-1)
    subscription.place(Position(2, 3))
    assert await subscription.wait(5)
    assert subscription.take_position() == Position(2, 3)
    subscription.place(Position(2, 3))
    assert subscription.take_position() is None
    subscription.place(Position(1, 3))
    subscription.place(None)
    assert subscription.take_position() is None
    assert not subscription.queued
