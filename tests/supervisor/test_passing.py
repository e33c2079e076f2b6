"""Younger requests pass one that waits for room, but never at its cost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.supervisor.placement import PATIENCE_S, Room
from tests.supervisor.placement_world import (
    GIB,
    NOW,
    Request,
    World,
    asked,
    off,
    planned,
    ready,
    room,
)

FOUR = room(4)
LARGE_FIRST = ready("busy", 3, num_running=1), asked("large", 3, for_s=9)


def test_what_fits_beside_the_older_one_passes() -> None:
    found = planned(*LARGE_FIRST, asked("small", 1), room=FOUR)
    assert found.start == ("small",)
    assert (
        found.reasons["large"].text == "model large waits for memory: busy is answering 1 request"
    )


def test_what_would_take_its_room_waits() -> None:
    younger = asked("small", 1), off("wanted", 1, is_wanted=True)
    found = planned(LARGE_FIRST[0], asked("large", 4, for_s=9), *younger, room=FOUR)
    assert found.start == ()
    assert found.reasons["small"].text == "model small waits for its turn behind large"


def test_only_one_passes_where_there_is_room_for_one() -> None:
    young = asked("one", 1, for_s=5), asked("two", 1, for_s=4)
    found = planned(ready("busy", 2, num_running=1), LARGE_FIRST[1], *young, room=FOUR)
    assert found.start == ("one",)


@pytest.mark.parametrize("state", ["loading", "ready"])
def test_what_has_passed_counts_though_nobody_remembers_it(state: str) -> None:
    passed = ready("one", 1, state=state, ready_since=NOW - 3)
    busy = ready("busy", 2, num_running=1)
    assert planned(busy, LARGE_FIRST[1], passed, asked("two", 1), room=FOUR).start == ()
    before = ready("one", 1, num_running=1, ready_since=NOW - 20)
    assert planned(busy, LARGE_FIRST[1], before, asked("two", 1), room=FOUR).start == ("two",)


def test_nobody_waits_behind_what_other_programs_keep_out() -> None:
    tight = Room(budget_bytes=2 * GIB, limit_bytes=8 * GIB)
    pinned = ready("pinned", 0.5, is_pinned=True)
    found = planned(pinned, asked("large", 3, for_s=99), asked("small", 1), room=tight)
    assert (found.start, found.leave) == (("small",), ())
    assert found.reasons["large"].text == (
        "model large waits for memory: it needs 3.0 GiB, 1.5 GiB are free"
    )


def test_a_second_try_waits_for_idle_models_only() -> None:
    """What drains with an answer may need its time; the others needn't wait for that."""
    draining = ready("a", state="draining", num_running=1)
    short, young = asked("b", for_s=9, is_short=True), asked("c")
    assert planned(draining, short, young, room=room(9)).start == ("b", "c")
    ends = ready("a", state="draining")
    found = planned(ends, short, young, room=room(9))
    assert (found.start, found.leave) == ((), ())


def test_memory_of_gpus_is_room_of_its_own() -> None:
    both = Room(9 * GIB, 9 * GIB, gpu_budgets=(2 * GIB,), gpu_limits=(3 * GIB,))
    on_gpu = ready("a", gpu_bytes=(GIB,), num_running=1)
    found = planned(on_gpu, asked("b", gpu_bytes=(2 * GIB,), for_s=9), asked("cpu"), room=both)
    assert found.start == ("cpu",)
    assert found.reasons["b"].text == "model b waits for GPU memory: a is answering 1 request"
    idle = ready("a", gpu_bytes=(GIB,))
    assert planned(idle, asked("b", gpu_bytes=(2 * GIB,)), room=both).leave == (("a", "b"),)
    assert planned(on_gpu, asked("b", gpu_bytes=(GIB,)), room=both).start == ("b",)
    # alone it is tried whatever other programs take there
    assert planned(asked("b", gpu_bytes=(3 * GIB,)), room=both).start == ("b",)
    assert planned(asked("b", gpu_bytes=(4 * GIB,)), room=both).refused["b"].text == (
        "model b is too large: it needs 4.0 GiB of GPU memory, 3.0 GiB may be used"
    )


def test_each_gpu_has_room_of_its_own() -> None:
    two = Room(9 * GIB, 9 * GIB, gpu_budgets=(2 * GIB, 2 * GIB), gpu_limits=(3 * GIB, 3 * GIB))
    first = ready("a", gpu_bytes=(2 * GIB, 0), num_running=1)
    assert planned(first, asked("b", gpu_bytes=(0, 2 * GIB)), room=two).start == ("b",)
    found = planned(first, asked("b", gpu_bytes=(GIB, 0)), room=two)
    assert (found.start, found.reasons["b"].text) == (
        (),
        "model b waits for GPU memory: a is answering 1 request",
    )
    second = ready("c", gpu_bytes=(0, GIB), used_at=1.0)
    idle = ready("a", gpu_bytes=(2 * GIB, 0), used_at=2.0)
    assert planned(second, idle, asked("b", gpu_bytes=(GIB, 0)), room=two).leave == (("a", "b"),)
    # together they have it, one of them doesn't
    assert planned(asked("b", gpu_bytes=(4 * GIB, 0)), room=two).refused["b"].text == (
        "model b is too large: it needs 4.0 GiB of GPU memory, 3.0 GiB may be used"
    )
    assert planned(asked("b", gpu_bytes=(2 * GIB, 2 * GIB)), room=two).start == ("b",)


TWO = Room(99 * GIB, 99 * GIB, gpu_budgets=(23 * GIB, 23 * GIB), gpu_limits=(23 * GIB, 23 * GIB))
ON_FIRST = {"gpu_bytes": (20 * GIB, 0), "is_pinned": True}
SPREAD = {"gpu_bytes": (6 * GIB, 6 * GIB), "is_spread": True}


def test_what_is_spread_lies_where_there_is_room() -> None:
    beside = ready("a", **ON_FIRST), asked("b", **SPREAD)
    found = planned(*beside, room=TWO)
    assert (found.start, found.leave, found.refused) == (("b",), (), {})
    (on_first, on_second) = found.shares["b"]
    assert on_first <= 3 * GIB
    assert on_first + on_second == pytest.approx(12 * GIB, abs=2)
    # in one round what starts first counts, and what nothing else lies beside is llama.cpp's to lay
    found = planned(
        off("a", is_wanted=True, **ON_FIRST), off("b", is_wanted=True, **SPREAD), room=TWO
    )
    assert (found.start, found.shares) == (("a", "b"), {"b": (on_first, on_second)})
    assert planned(asked("b", **SPREAD), room=TWO).shares == {}
    # an idle model beside it needn't leave
    idle = ready("c", gpu_bytes=(0, 11 * GIB))
    assert planned(beside[0], idle, beside[1], room=TWO).leave == ()


def test_what_is_spread_may_be_too_large_for_all_together() -> None:
    wide = {"gpu_bytes": (14 * GIB, 14 * GIB), "is_spread": True}
    found = planned(ready("a", **ON_FIRST), asked("b", **wide), room=TWO)
    assert found.refused["b"].text == (
        "model b is too large: it needs 28.0 GiB of GPU memory, 26.0 GiB may be used beside a"
    )
    busy = ready("c", gpu_bytes=(0, 20 * GIB), num_running=1)
    found = planned(ready("a", **ON_FIRST), busy, asked("b", **SPREAD), room=TWO)
    assert (found.start, found.reasons["b"].text) == (
        (),
        "model b waits for GPU memory: a is pinned, c is answering 1 request",
    )


def test_what_is_spread_and_will_be_loaded_leaves_the_others_their_gpu() -> None:
    wanted = off("b", is_wanted=True, is_pinned=True, **SPREAD)
    first = {"gpu_bytes": (20 * GIB, 0)}
    assert planned(asked("a", **first), wanted, room=TWO).start == ("a", "b")
    lies = ready("b", gpu_bytes=(6 * GIB, 6 * GIB), is_spread=True, is_pinned=True)
    assert planned(asked("a", **first), lies, room=TWO).refused["a"].text == (
        "model a is too large: it needs 20.0 GiB of GPU memory, 17.0 GiB may be used beside b"
    )
    most = asked("a", gpu_bytes=(20 * GIB, 20 * GIB))
    assert planned(most, wanted, room=TWO).refused["a"].text == (
        "model a is too large: it needs 40.0 GiB of GPU memory, 34.0 GiB may be used beside b"
    )


EVENTS = st.lists(
    st.tuples(st.sampled_from(["s1", "s2", "s3"]), st.integers(0, 30), st.floats(0.5, 40.0)),
    max_size=15,
)


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.floats(1.0, 90.0), st.sampled_from([0, 3]))
def test_who_passes_costs_the_older_one_nothing(
    events: list[tuple[str, int, float]], busy_s: float, max_loaded: int
) -> None:
    """The large model starts when it would without the small ones."""
    alone_s = _large_starts_after(busy_s, [], max_loaded)
    assert _large_starts_after(busy_s, events, max_loaded) == alone_s


def _large_starts_after(
    busy_s: float, events: list[tuple[str, int, float]], max_loaded: int
) -> float:
    smalls = [off("s1", 0.5), off("s2", 1.0), off("s3", 1.5)]
    world = World([off("busy", 3), off("large", 3), *smalls], room(4.5, max_loaded))
    world.of["busy"].waiting.append(Request(world.now, busy_s))
    for _ in range(5):
        world.tick()
    asked_at = world.now
    world.of["large"].waiting.append(Request(world.now, 5.0))
    todo = sorted((ticks, name, work_s) for name, ticks, work_s in events)
    for tick in range(int(2 * PATIENCE_S + busy_s) + 20):
        world.tick()
        for ticks, name, work_s in todo:
            if ticks == tick:
                world.of[name].waiting.append(Request(world.now, work_s))
        if world.of["large"].model.state == "loading":
            return world.now - asked_at
    raise AssertionError("the large model was never loaded")
