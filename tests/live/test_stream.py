"""A log as stream frames: pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conversations.edge.live.bounds import CHUNK_BYTES
from conversations.edge.live.frames import StreamFrame
from conversations.edge.live.stream import StreamFold, cursor_parse, cursor_text, runs_join
from inference.api import START, Cursor, Position, Read
from inference.protocol.events import (
    CallRef,
    Cancelled,
    Delta,
    Entry,
    Event,
    Failed,
    Finished,
    Progress,
    Started,
    TokenLogprobs,
    TokenProb,
    Unknown,
)
from inference.protocol.fold import EMPTY, fold

PROB = TokenProb(7, (65,), -0.5)
KINDS = st.sampled_from(["content", "reasoning", "tool_call"])
DELTAS = st.builds(
    lambda text, kind: Delta(text, (77001,), kind=kind, logprobs=(TokenLogprobs(PROB, (PROB,)),)),
    st.text(max_size=5),
    KINDS,
)
LOGS = st.lists(DELTAS, max_size=12).map(
    lambda deltas: [Started(9, 2), Progress(5, 9), Unknown("Later"), *deltas, Finished("stop")]
)


def entries(events: Sequence[Event]) -> tuple[Entry, ...]:
    return tuple(Entry(seq, event) for seq, event in enumerate(events))


def shown(frames: Sequence[StreamFrame]) -> list[tuple[str, str]]:
    """What a client has after these frames."""
    runs: list[Any] = []
    for frame in frames:
        if frame.reset:
            runs = []
        runs += frame.deltas
    return runs_join(runs)


def expected(events: Sequence[Event]) -> list[tuple[str, str]]:
    return runs_join((event.kind, event.text) for event in events if isinstance(event, Delta))


@given(LOGS, st.lists(st.integers(0, 20), max_size=6), st.data())
def test_whatever_is_cut_joined_or_folded_the_text_is_the_same(
    events: list[Event], cuts: list[int], data: Any
) -> None:
    log = entries(events)
    reader = StreamFold("c", "t", "g")
    frames: list[StreamFrame] = []
    at = 0
    for cut in sorted({min(cut, len(log)) for cut in cuts} | {len(log)}):
        if data.draw(st.booleans(), label="connects anew"):
            cursor = cursor_parse(frames[-1].cursor) if frames else None
            reader = StreamFold("c", "t", "g", cursor)
            at = reader.cursor.seq + 1
        if cut and data.draw(st.booleans(), label="was folded"):
            snapshot = fold(EMPTY, log[:cut])
            read = Read(Cursor(3, cut - 1), (), snapshot)
        elif cut > at:
            read = Read(Cursor(1, cut - 1), log[at:cut])
        else:
            continue
        frames += reader.take(read)
        at = cut
    assert shown(frames) == expected(events)
    assert frames[-1].end is not None
    assert frames[-1].end.state == "finished"
    assert reader.has_ended
    assert "77001" not in "".join(frame.model_dump_json() for frame in frames)


def test_neighbours_of_one_kind_travel_as_one() -> None:
    deltas = [
        Delta("a", (1,)),
        Delta("", (2,)),
        Delta("b", (3,)),
        Delta("c", (4,), kind="reasoning"),
    ]
    (frame,) = StreamFold("c", "t", "g", START).take(Read(Cursor(1, 3), entries(deltas)))
    assert frame.deltas == [("content", "ab"), ("reasoning", "c")]
    assert frame.cursor == "1:3"
    assert not frame.reset


def test_the_first_text_resets_a_client_without_a_cursor() -> None:
    reader = StreamFold("c", "t", "g")
    (place,) = reader.take(Position(2, 5))
    assert (place.reset, place.deltas, place.cursor) == (True, [], "1:-1")
    assert place.place is not None
    assert (place.place.ahead, place.place.waiting) == (2, 5)
    (text,) = reader.take(Read(Cursor(1, 0), (Entry(0, Delta("a", (1,))),)))
    assert not text.reset
    assert text.place is None


def test_ids_whose_text_is_held_back_make_no_frame() -> None:
    reader = StreamFold("c", "t", "g", START)
    assert reader.take(Read(Cursor(1, 0), (Entry(0, Delta("", (1,))),))) == []
    assert reader.cursor == Cursor(1, 0)


def test_a_long_reset_comes_in_pieces_that_claim_nothing_before_the_last() -> None:
    text = "é" * (2 * CHUNK_BYTES + 10)
    snapshot = fold(EMPTY, entries([Started(3, 1), Delta(text, (1,)), Delta("x", (2,))]))
    frames = StreamFold("c", "t", "g", Cursor(1, 0)).take(Read(Cursor(4, 2), (), snapshot))
    assert len(frames) == 3
    assert [frame.reset for frame in frames] == [True, False, False]
    assert [frame.cursor for frame in frames] == ["4:-1", "4:-1", "4:2"]
    assert shown(frames) == [("content", text + "x")]
    assert cursor_parse("4:-1") is None


@pytest.mark.parametrize(
    ("event", "state", "code"),
    [
        (Finished("length"), "finished", "length"),
        (Cancelled("user"), "cancelled", "user"),
        (Failed("engine_failed", "the model failed"), "failed", "engine_failed"),
    ],
)
def test_ends(event: Event, state: str, code: str) -> None:
    (frame,) = StreamFold("c", "t", "g").take(Read(Cursor(1, 0), (Entry(0, event),)))
    assert frame.end is not None
    assert (frame.end.state, frame.end.code) == (state, code)


def test_a_lost_log_is_no_end_of_the_reader() -> None:
    reader = StreamFold("c", "t", "g")
    (frame,) = reader.take(Read(START, gone=True))
    assert frame.end is not None
    assert frame.end.state == "gone"
    assert not reader.has_ended


def test_prefill_tells_what_was_cached() -> None:
    log = entries([Started(90, 30), Progress(60, 90)])
    (frame,) = StreamFold("c", "t", "g", START).take(Read(Cursor(1, 1), log))
    assert frame.prefill is not None
    assert frame.prefill.model_dump() == {"done": 60, "total": 90, "cached": 30}


@pytest.mark.parametrize("text", ["1:-1", "1:-5", f"1:{10**30}", f"{10**30}:1"])
def test_cursors_that_name_nothing_start_anew(text: str) -> None:
    assert cursor_parse(text) is None


def test_cursors_come_back_as_they_went() -> None:
    assert cursor_parse(cursor_text(Cursor(3, 44))) == Cursor(3, 44)


CALLS: list[Event] = [
    Delta("So", (1,)),
    Delta("", (2,), kind="tool_call", call=CallRef(0, "a", "say")),
    Delta('{"text": "é', (3,), kind="tool_call", call=CallRef(0)),
    Delta('\\n"}', (4,), kind="tool_call", call=CallRef(0, end="complete")),
    Delta("{}", (5,), kind="tool_call", call=CallRef(1, "b", "clock", "complete")),
    Finished("tool_calls"),
]


@pytest.mark.parametrize("cut", range(len(CALLS) + 1))
def test_calls_are_lines_of_json(cut: int) -> None:
    """However much came as a snapshot, and however much behind it."""
    log = entries(CALLS)
    follow = StreamFold("c", "t", "g")
    frames = follow.take(Read(Cursor(1, cut - 1), reset=fold(EMPTY, log[:cut])))
    for entry in log[cut:]:
        frames += follow.take(Read(Cursor(1, entry.seq), (entry,)))
    (text, calls) = shown(frames)
    assert text == ("content", "So")
    assert [json.loads(line) for line in calls[1].splitlines()] == [
        {"id": "a", "name": "say", "arguments": '{"text": "é\\n"}'},
        {"id": "b", "name": "clock", "arguments": "{}"},
    ]
