"""A fold doesn't depend on where the log is cut, nor on how deltas were merged."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.events import CallRef, Delta, Entry, Event, Finished, Started, Unknown
from inference.protocol.fold import EMPTY, Log, fold, runs_of, text_of
from inference.worker.outlet import merge
from tests.protocol import strategies as s


def numbered(events: list[Event], first: int = 0) -> list[Entry]:
    return [Entry(first + i, event) for i, event in enumerate(events)]


@given(st.lists(s.events, max_size=12), st.integers(0, 12))
def test_any_cut_gives_the_same(events: list[Event], cut: int) -> None:
    entries = numbered(events)
    assert fold(fold(EMPTY, entries[:cut]), entries[cut:]) == fold(EMPTY, entries)


@given(st.lists(s.events, max_size=12), st.integers(0, 12))
def test_entries_seen_already_change_nothing(events: list[Event], again: int) -> None:
    entries = numbered(events)
    whole = fold(EMPTY, entries)
    assert fold(whole, entries[:again]) == whole


@given(st.lists(s.events, max_size=12))
def test_the_growing_log_is_the_fold(events: list[Event]) -> None:
    log = Log()
    for event in events:
        log.add(event)
    assert log.snapshot() == fold(EMPTY, numbered(events))


@given(st.lists(s.deltas, max_size=12))
def test_merging_deltas_changes_only_the_seq(deltas: list[Delta]) -> None:
    plain = fold(EMPTY, numbered(list(deltas)))
    merged = fold(EMPTY, numbered(merge(deltas)))
    assert (merged.parts, merged.token_ids, merged.draws, merged.logprobs) == (
        plain.parts,
        plain.token_ids,
        plain.draws,
        plain.logprobs,
    )


def test_a_missing_seq_is_an_error() -> None:
    with pytest.raises(ValueError, match="seq 2 after 0"):
        fold(EMPTY, [Entry(0, Started(1, 0)), Entry(2, Finished("stop"))])


def test_a_second_start_keeps_the_first_figures() -> None:
    snapshot = fold(EMPTY, numbered([Started(5, 4), Delta("a", (1,)), Started(5, 0)]))
    assert snapshot.started == Started(5, 4)


def test_unknown_events_count_only_by_their_seq() -> None:
    events: list[Event] = [Started(5, 4), Unknown("Thought"), Delta("a", (1,)), Unknown("End")]
    snapshot = fold(EMPTY, numbered(events))
    assert snapshot == replace(fold(EMPTY, numbered([events[0], events[2]])), seq=3)
    log = Log()
    for event in events:
        log.add(event)
    assert log.snapshot() == snapshot


def test_text_is_joined_by_kind() -> None:
    events: list[Event] = [Delta("a", (1,)), Delta("t", (2,), kind="reasoning"), Delta("b", (3,))]
    snapshot = fold(EMPTY, numbered(events))
    assert (text_of(snapshot), text_of(snapshot, "reasoning")) == ("ab", "t")


def test_calls_tell_whether_they_are_whole() -> None:
    ends = ("complete", "broken", None)
    events: list[Event] = [
        Delta('{"a', (1,), kind="tool_call", call=CallRef(index, f"c{index}", "f", end))
        for index, end in enumerate(ends)
    ]
    told = [json.loads(text) for _, text in runs_of(fold(EMPTY, numbered(events)))]
    call = {"id": "c0", "name": "f", "arguments": '{"a'}
    assert told == [
        call,
        {**call, "id": "c1", "broken": True},
        {**call, "id": "c2", "broken": True},
    ]
