"""The table of turns: what may follow what, whoever does it and in whatever order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.turns.events import (
    TERMINAL,
    CancelGeneration,
    CreateGeneration,
    Status,
    StoreAnswer,
    TurnEvent,
    What,
)
from conversations.turns.machine import TABLE, IllegalMove, TurnState, decide

GENERATION = [what for what in What if what.startswith("generation_")]
ENDS = [what for what in GENERATION if what is not What.GENERATION_STARTED]


def test_nothing_leaves_a_terminal_status() -> None:
    assert not [at for at, _ in TABLE if at in TERMINAL]


def test_while_it_generates_every_end_and_every_wish_has_a_move() -> None:
    for status in (Status.QUEUED, Status.RUNNING, Status.STOPPING):
        for what in [*ENDS, What.STOP, What.DELETE]:
            assert (status, what) in TABLE
    for what in (What.STOP, What.DELETE, What.TOOLS_ANSWERED):
        assert (Status.WAITING_FOR_USER, what) in TABLE


def test_every_end_stores_the_answer_but_a_deleted_one() -> None:
    for (status, what), (after, commands) in TABLE.items():
        if after in TERMINAL:
            stores = [name for name in commands if not name.startswith("cancel")]
            assert len(stores) == (0 if what is What.DELETE else 1), (status, what)


@pytest.mark.parametrize(
    ("what", "status", "answer"),
    [
        (What.GENERATION_FINISHED, Status.FINISHED, "done"),
        (What.GENERATION_CANCELLED, Status.CANCELLED, "stopped"),
        (What.GENERATION_FAILED, Status.FAILED, "failed"),
        (What.GENERATION_INTERRUPTED, Status.INTERRUPTED, "interrupted"),
        (What.GENERATION_LOST, Status.INTERRUPTED, "interrupted"),
    ],
)
def test_each_end_of_a_generation_ends_the_turn(what: What, status: Status, answer: str) -> None:
    state, _ = decide(TurnState(), TurnEvent(What.START, "g"))
    state, commands = decide(state, TurnEvent(what, "g"))
    assert (state.status, state.is_generating) == (status, False)
    assert commands == (StoreAnswer(answer),)  # type: ignore[arg-type]


def test_a_stop_waits_for_the_end() -> None:
    state, _ = decide(TurnState(), TurnEvent(What.START, "g"))
    state, commands = decide(state, TurnEvent(What.STOP))
    assert (state.status, commands) == (Status.STOPPING, (CancelGeneration("g", "user"),))
    state, commands = decide(state, TurnEvent(What.GENERATION_CANCELLED, "g"))
    assert (state.status, commands) == (Status.CANCELLED, (StoreAnswer("stopped"),))


@given(
    st.lists(
        st.tuples(st.sampled_from(list(What)), st.sampled_from(["current", "old", "new"])),
        max_size=30,
    )
)
def test_whatever_happens_the_rules_hold(script: list[tuple[What, str]]) -> None:
    state, count = TurnState(), 0
    old: list[str] = []
    running: set[str] = set()  # generations that were made and aren't known to have ended
    stored = 0
    for what, which in script:
        names = {"current": state.generation_id, "old": old[-1] if old else "?", "new": f"g{count}"}
        by_person = what in (What.STOP, What.DELETE)
        event = TurnEvent(what, "" if by_person else names[which])
        try:
            after, commands = decide(state, event)
        except IllegalMove:
            continue
        assert not state.is_terminal
        for command in commands:
            if isinstance(command, CreateGeneration):
                assert not running, "two generations at once"
                running.add(command.generation_id)
                old.append(state.generation_id)
                count += 1
            elif isinstance(command, CancelGeneration):
                assert command.generation_id in running
            elif isinstance(command, StoreAnswer):
                stored += 1
        if what in ENDS:
            running.remove(event.generation_id)
        assert running == ({after.generation_id} if after.is_generating else set())
        state = after
    assert stored <= 1
