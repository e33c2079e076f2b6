"""Who is loaded for whom, and who has to leave."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.supervisor.placement import (
    MIN_RESIDENCE_S,
    PATIENCE_S,
    STANDING_IDLE_S,
    Room,
)
from tests.supervisor.placement_world import (
    GIB,
    NOW,
    ONE,
    Request,
    World,
    alternating,
    asked,
    off,
    planned,
    ready,
    room,
)

# --- what fits


def test_what_is_asked_for_is_loaded_where_it_fits() -> None:
    found = planned(asked("b"), off("c"), room=room(2))
    assert (found.start, found.leave) == (("b",), ())


def test_what_nobody_asks_for_is_loaded_only_if_it_is_wanted() -> None:
    assert planned(off("a"), off("b", is_wanted=True)).start == ("b",)


def test_requests_of_one_model_are_one_load() -> None:
    loading = off("b", state="loading", num_waiting=7)
    found = planned(loading)
    assert (found.start, found.reasons["b"].text) == ((), "model b is loading")


def test_what_it_does_is_said() -> None:
    found = planned(off("b", state="loading", num_waiting=1, doing="being measured"))
    assert found.reasons["b"].text == "model b is being measured"


def test_the_oldest_request_comes_first() -> None:
    found = planned(asked("young", for_s=1), asked("old", for_s=9))
    assert found.start == ("old",)
    assert "behind" not in found.reasons["young"].text
    assert found.reasons["young"].text == "model young waits for memory: old is loading"


def test_small_models_do_not_overtake_a_large_one() -> None:
    busy = ready("a", 3, num_running=1)
    found = planned(busy, asked("large", 4, for_s=9), asked("small", 1), room=room(4))
    assert found.start == ()
    assert found.reasons["small"].text == "model small waits for its turn behind large"


def test_what_needs_no_memory_waits_for_nobody() -> None:
    busy = ready("a", num_running=1)
    elsewhere = asked("there", 0, takes_place=False)
    found = planned(busy, asked("b", for_s=9), elsewhere, room=room(1, max_loaded=1))
    assert found.start == ("there",)


def test_a_number_of_models_may_be_the_bound() -> None:
    bound = room(99, max_loaded=1)
    found = planned(ready("a", num_running=1), asked("b"), room=bound)
    assert (found.start, found.leave) == ((), ())
    assert found.reasons["b"].text == "model b waits for a place: a is answering 1 request"
    assert planned(ready("a"), asked("b"), room=bound).leave == (("a", "b"),)
    both = planned(ready("a", num_running=1), asked("b"), room=room(1, max_loaded=1))
    assert both.reasons["b"].text == "model b waits for memory: a is answering 1 request"


def test_unknown_memory_bounds_nothing() -> None:
    assert planned(ready("a"), asked("b"), room=Room(0, None)).start == ("b",)


def test_the_only_model_is_tried_whatever_other_programs_take() -> None:
    tight = Room(budget_bytes=GIB // 2, limit_bytes=2 * GIB)
    assert planned(asked("b"), room=tight).start == ("b",)
    assert planned(ready("a", 0.1, num_running=1), asked("b"), room=tight).start == ()


def test_alone_it_may_do_with_less() -> None:
    small = asked("b", 2, least_bytes=GIB)
    assert planned(small).start == ("b",)
    assert planned(ready("a", 0.5, num_running=1), small, room=room(2)).start == ()
    assert "needs 2.0 GiB" in planned(asked("b", 2)).refused["b"].text


# --- who leaves


def test_the_least_recently_used_idle_engine_leaves() -> None:
    models = ready("new", used_at=900.0), ready("old", used_at=800.0), asked("b")
    found = planned(*models, room=room(2))
    assert (found.start, found.leave) == ((), (("old", "b"),))
    assert found.reasons["b"].text == "model b waits for memory: old is being unloaded"


def test_no_more_leave_than_have_to() -> None:
    models = ready("tiny", 0.5, used_at=1.0), ready("big", 2, used_at=2.0), asked("b", 2)
    assert planned(*models, room=room(2.5)).leave == (("big", "b"),)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_running": 2}, "a is answering 2 requests"),
        ({"num_running": 1}, "a is answering 1 request"),
        ({"num_waiting": 1, "waits_since": NOW - 5}, "a has requests to answer"),
        ({"num_background": 1}, "a has requests to answer"),
        ({"ready_since": NOW - MIN_RESIDENCE_S + 1}, "a was just loaded"),
        ({"state": "loading", "is_wanted": True}, "a is loading"),
        ({"state": "draining", "num_running": 1}, "a ends its last 1 request"),
        ({"state": "draining"}, "a is being unloaded"),
    ],
)
def test_nobody_leaves_but_what_is_idle_and_the_reason_is_said(
    fields: dict[str, Any], words: str
) -> None:
    found = planned(ready("a", **fields), asked("b"))
    assert (found.start, found.leave) == ((), ())
    assert found.reasons["b"].text == f"model b waits for memory: {words}"


def test_what_is_idle_stays_if_it_is_not_enough() -> None:
    models = ready("idle"), ready("busy", num_running=1), asked("b", 2)
    found = planned(*models, room=room(2))
    assert found.leave == ()


def test_a_load_whose_waiter_left_makes_way() -> None:
    left = off("a", state="loading", is_wanted=False)
    assert planned(left, asked("b")).leave == (("a", "b"),)


def test_leaving_engines_are_waited_for_before_others_leave() -> None:
    models = ready("going", state="draining"), ready("idle"), asked("b")
    assert planned(*models, room=room(2)).leave == ()


# --- patience


def test_a_busy_engine_drains_after_a_while() -> None:
    busy = ready("a", num_running=2)
    assert planned(busy, asked("b", for_s=PATIENCE_S - 1)).leave == ()
    assert planned(busy, asked("b", for_s=PATIENCE_S)).leave == (("a", "b"),)


def test_not_while_an_older_request_waits_at_it() -> None:
    busy = ready("a", num_running=2, num_waiting=1, waits_since=NOW - PATIENCE_S - 5)
    assert planned(busy, asked("b", for_s=PATIENCE_S + 1)).leave == ()
    younger = replace(busy, waits_since=NOW - 5)
    assert planned(younger, asked("b", for_s=PATIENCE_S + 1)).leave == (("a", "b"),)


def test_not_before_it_has_been_there_for_a_while() -> None:
    busy = ready("a", num_running=2, ready_since=NOW - 1)
    assert planned(busy, asked("b", for_s=PATIENCE_S)).leave == ()


def test_idle_engines_can_answer_until_the_busy_ones_have_left() -> None:
    models = ready("idle"), ready("busy", num_running=1), asked("b", 2, for_s=PATIENCE_S)
    assert planned(*models, room=room(2)).leave == (("busy", "b"),)
    assert planned(ready("idle"), asked("b", 2, for_s=PATIENCE_S), room=room(2)).leave == (
        ("idle", "b"),
    )


# --- pinned, too large, failed


def test_pinned_engines_stay_and_what_does_not_fit_beside_them_is_told() -> None:
    found = planned(ready("a", is_pinned=True), asked("b", for_s=99), room=room(1.5))
    assert (found.start, found.leave) == ((), ())
    assert found.refused["b"].text == (
        "model b is too large: it needs 1.0 GiB, 512 MiB may be used beside a"
    )


def test_what_is_too_large_is_told_both_sizes_and_blocks_nobody() -> None:
    found = planned(asked("huge", 9.1, for_s=9), asked("b"), room=room(6))
    assert list(found.refused) == ["huge"]
    assert found.refused["huge"].text == (
        "model huge is too large: it needs 9.1 GiB, 6.0 GiB may be used"
    )
    assert found.start == ("b",)


def test_pinned_models_may_take_all_places() -> None:
    found = planned(ready("a", is_pinned=True), asked("b"), room=room(9, max_loaded=1))
    assert found.refused["b"].text == "model b can't be loaded beside a: at most 1 may be"


def test_a_failed_model_rests_and_blocks_nobody() -> None:
    found = planned(asked("bad", for_s=9, is_resting=True), asked("b"))
    assert found.start == ("b",)


def test_a_load_that_was_short_of_memory_has_all_idle_engines_leave_first() -> None:
    fresh = ready("a", ready_since=NOW - 1)
    short = asked("b", is_short=True)
    found = planned(fresh, ready("busy", num_running=1), short, room=room(9))
    assert (found.start, found.leave) == ((), (("a", "b"),))
    assert found.reasons["b"].text == "model b is tried again when the idle models have left"
    assert planned(ready("busy", num_running=1), short, room=room(9)).start == ("b",)


def test_an_engine_that_comes_back_is_no_room_to_wait_for() -> None:
    renewing = ready("renewing", state="renewing", num_running=1)
    idle = ready("idle", used_at=500.0)
    found = planned(renewing, idle, asked("b"), room=room(2))
    assert (found.start, found.leave) == ((), (("idle", "b"),))
    found = planned(renewing, asked("b"))
    assert (found.start, found.leave) == ((), ())
    assert found.reasons["b"].text == ("model b waits for memory: renewing is answering 1 request")
    found = planned(ready("a", state="renewing"), asked("b"))
    assert found.reasons["b"].text == "model b waits for memory: a is loading"
    found = planned(asked("a", state="renewing"))
    assert found.reasons["a"].text == "model a ends and is loaded again then"


# --- wanted models and work in the background


def test_a_wanted_model_comes_back_when_its_place_is_not_needed() -> None:
    wanted = off("a", is_wanted=True)
    recent = ready("b", used_at=NOW - STANDING_IDLE_S + 1)
    assert planned(wanted, recent).leave == ()
    assert planned(wanted, replace(recent, used_at=NOW - STANDING_IDLE_S)).leave == (("b", "a"),)
    assert planned(wanted, ready("b", is_wanted=True)).leave == ()


def test_work_in_the_background_makes_no_room() -> None:
    background = off("b", num_background=1)
    assert planned(background).start == ("b",)
    found = planned(ready("a"), background)
    assert (found.start, found.leave) == ((), ())
    assert found.reasons["b"].text.startswith("model b waits for memory")


# --- a world of models, requests and time


def test_who_waited_first_is_answered_before_the_next_swap() -> None:
    """C12: a long answer of a, then b, then five that alternate."""
    world = World([off("a"), off("b")], ONE)

    def ask(name: str, work_s: float = 2.0) -> Request:
        request = Request(world.now, work_s)
        world.of[name].waiting.append(request)
        world.tick()
        return request

    long = ask("a", 25.0)
    for _ in range(5):
        world.tick()
    assert world.of["a"].running == [long]
    first = ask("b")
    assert world.plan.reasons["b"].text == "model b waits for memory: a is answering 1 request"
    others = [ask(name) for name in ("a", "b", "a", "b", "a")]
    while long.work_s > 0:
        assert world.of["a"].model.state == "ready"  # nobody's answer ends for another
        assert first not in world.answered
        world.tick()
    for _ in range(60):
        world.tick()
    assert world.answered.index(first) < world.answered.index(others[1])
    assert set(world.answered) == {long, first, *others}
    assert world.num_loads <= 3


def test_alternating_requests_do_not_thrash() -> None:
    world = World([off("a"), off("b")], ONE)
    alternating(world, ["a", "b"], num=10, every_s=1, work_s=2.0)
    assert world.num_loads <= 3


def test_loads_are_bounded_by_time_however_requests_alternate() -> None:
    world = World([off("a"), off("b")], ONE)
    alternating(world, ["a", "b"], num=200, every_s=1, work_s=1.0)
    assert world.num_loads <= 200 / (MIN_RESIDENCE_S + World.LOAD_S) + 2


def test_a_stream_of_requests_starves_nobody() -> None:
    world = World([off("a"), off("b")], ONE)
    world.of["a"].waiting.append(Request(world.now, 5.0))
    for number in range(400):
        world.of["a"].waiting.append(Request(world.now, 2.0))
        if number == 20:
            world.of["b"].waiting.append(Request(world.now, 5.0))
        world.tick()
        if world.of["b"].model.state == "ready":
            break
    else:
        pytest.fail("b was never loaded")
    # as long as a worked at what had come before
    assert world.now - NOW < 20 + PATIENCE_S + 60


MODELS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict,
        gib=st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.5]),
        is_wanted=st.booleans(),
        is_pinned=st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=4,
)
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 3),  # of which model
        st.sampled_from(["ask", "ask", "ask", "leave", "crash"]),
        st.integers(0, 15),  # ticks until the next
        st.floats(0.5, 40.0),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(MODELS, EVENTS, st.sampled_from([1.0, 2.0, 4.0]), st.sampled_from([0, 0, 1, 2]))
def test_whatever_happens_the_rules_hold_and_everybody_is_answered(
    models: list[dict[str, Any]],
    events: list[tuple[int, str, int, float]],
    gib: float,
    max_loaded: int,
) -> None:
    made = [off(f"m{i}", **fields) for i, fields in enumerate(models)]
    world = World(made, room(gib, max_loaded))
    for which, what, ticks, work_s in events:
        one = world.of[f"m{which % len(made)}"]
        if what == "ask":
            one.waiting.append(Request(world.now, work_s))
        elif what == "leave" and one.waiting:
            one.waiting.pop()
        elif what == "crash":
            one.running.clear()
            one.model = replace(one.model, state="off")
        for _ in range(ticks):
            world.tick()
    for _ in range(1500):
        world.tick()
    assert not any(one.waiting or one.running for one in world.of.values())
