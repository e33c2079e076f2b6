"""Server-sent events are the same however the network cuts them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.upstream.events import MAX_EVENT_BYTES, EventLines, UnreadableError

STREAM = (
    "data: one\n\n"
    ": a comment\r\n"
    "event: x\r\ndata:  two\r\ndata: é漢\r\n\r\n"
    "id: 3\n\n\n"
    'error: {"code":500}\n\n'
    "data: last"
).encode()
EXPECTED = ["one", " two\né漢", '{"code":500}', "last"]


def read(pieces: list[bytes]) -> list[str]:
    lines = EventLines()
    found = [data for piece in pieces for data in lines.feed(piece)]
    return found + list(lines.close())


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(edges)]
    assert read(pieces) == EXPECTED


@pytest.mark.parametrize("start", [b"data: ", b": ", b""])
def test_a_line_without_end_is_refused(start: bytes) -> None:
    with pytest.raises(UnreadableError):
        read([start, *[b"x" * 65_536] * (MAX_EVENT_BYTES // 65_536 + 1)])


def test_an_event_of_many_lines_is_refused() -> None:
    line = b"data: " + b"x" * 1000 + b"\n"
    with pytest.raises(UnreadableError):
        read([line] * (MAX_EVENT_BYTES // 1000 + 2))
