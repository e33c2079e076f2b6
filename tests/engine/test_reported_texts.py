"""Texts that servers of this kind got wrong in public reports, through the whole engine.

The same cases on a real vocabulary: `tests/model/test_reported_texts.py`.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.engine.engine import Engine
from inference.engine.mock_backend import MockBackend
from inference.engine.mock_tokenizer import MockTokenizer
from inference.protocol.events import Delta, Entry, Event
from inference.protocol.fold import EMPTY, fold
from inference.protocol.fold import text_of as folded_text
from inference.protocol.params import Limits
from inference.protocol.spec import MockSpec
from llamaweb.lib.clock import ManualClock
from tests.engine.driving import ask, finished, run_one, text_of

MAX_PIECES = 60  # so that the prompt's bytes are none of them


class PieceTokenizer(MockTokenizer):
    """Token n + 1 is `pieces[n]`, whatever bytes that is."""

    def __init__(self, pieces: list[bytes]) -> None:
        assert len(pieces) <= MAX_PIECES
        self._pieces = pieces

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        if 0 < token_id <= len(self._pieces):
            return self._pieces[token_id - 1]
        return super().piece(token_id, special=special)


def speak(pieces: list[bytes], *stops: str) -> list[Event]:
    """What the engine makes of a model that says just these tokens."""
    reply = bytes(range(1, len(pieces) + 1)) or b"\x00"
    backend = MockBackend(MockSpec(reply=reply.decode()), num_seqs=1, max_context=200)
    backend.tokenizer = PieceTokenizer(pieces)
    return run_one(
        Engine(backend, clock=ManualClock()), ask("a", "hello", limits=Limits(stop=stops))
    )


def shown(events: list[Event]) -> list[str]:
    """The text of each chunk of the stream."""
    return [event.text for event in events if isinstance(event, Delta)]


def bytewise(text: str | bytes) -> list[bytes]:
    data = text.encode() if isinstance(text, str) else text
    return [bytes((byte,)) for byte in data]


FRAMES = "data: x\n\n\r\u2028\u2029y"
UNICODE = "ok 😺 漢字 é"
BROKEN = b"\xf0 then text \xe6\xbc"


@pytest.mark.parametrize(
    ("pieces", "stop", "said", "stopped_by"),
    [
        pytest.param(
            [b"alpha", b" be", b"ta ga", b"mma", b" delta"],
            "beta gamma",
            "alpha ",
            "beta gamma",
            id="T01",
        ),
        pytest.param(
            bytewise("alpha beta gamma delta"), "beta gamma", "alpha ", "beta gamma", id="T01-bytes"
        ),
        pytest.param([b"really", b"?\n", b"no"], "\n", "really?", "\n", id="T02"),
        pytest.param([b"really?\nno"], "\n", "really?", "\n", id="T02-one-token"),
        pytest.param(
            [b"a ", b"be", b"e", b" be", b"ta"], "beta gamma", "a bee beta", None, id="T03"
        ),
        pytest.param(bytewise("a bee beta"), "beta gamma", "a bee beta", None, id="T03-bytes"),
        pytest.param(bytewise(UNICODE), "never", UNICODE, None, id="T05"),
        pytest.param(
            [b"ok \xf0\x9f", b"\x98\xba \xe6\xbc\xa2\xe5", b"\xad\x97 \xc3", b"\xa9"],
            "never",
            UNICODE,
            None,
            id="T05-pairs",
        ),
        pytest.param(bytewise(BROKEN), "never", "\ufffd then text \ufffd", None, id="T06"),
        pytest.param(
            [b"\xf0", b" then text ", b"\xe6\xbc"],
            "never",
            "\ufffd then text \ufffd",
            None,
            id="T06-pieces",
        ),
        pytest.param(bytewise(FRAMES), "z", FRAMES, None, id="T08"),
        pytest.param([FRAMES.encode()], "z", FRAMES, None, id="T08-one-token"),
    ],
)
def test_the_text_is_right_and_whole(
    pieces: list[bytes], stop: str, said: str, stopped_by: str | None
) -> None:
    events = speak(pieces, stop)
    texts = shown(events)
    assert "".join(texts) == said
    assert folded_text(fold(EMPTY, (Entry(n, e) for n, e in enumerate(events)))) == said
    assert (finished(events).reason, finished(events).stop_string) == ("stop", stopped_by)
    assert sum(text.count("\ufffd") for text in texts) == said.count("\ufffd")
    for text in texts:
        text.encode()  # no half of a character


def test_held_text_comes_once_and_as_soon_as_it_can() -> None:
    """T03: "be" may begin the stop string, "bee" doesn't."""
    texts = shown(speak([b"a ", b"be", b"e", b" be", b"ta", b"!"], "beta gamma"))
    assert texts[:6] == ["a ", "", "bee", " ", "", "beta!"]


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        (bytewise(BROKEN), ["", "\ufffd ", "t", "h"]),
        ([b"\xf0", b" then", b" text"], ["", "\ufffd then", " text"]),
        ([b"a\xf0b", b"c"], ["a\ufffdb", "c"]),
        ([b"\x80", b"\xff", b"x"], ["\ufffd", "\ufffd", "x"]),
    ],
)
def test_bad_bytes_hold_nothing_up(pieces: list[bytes], texts: list[str]) -> None:
    """T06: what follows a lone byte is shown with the next token, not at the end."""
    assert shown(speak(pieces, "|"))[: len(texts)] == texts


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted({min(cut, len(data)) for cut in cuts} - {0, len(data)}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


datas = st.one_of(
    st.text("ab \n\r漢😺\u2028", min_size=1, max_size=20).map(str.encode),
    st.lists(
        st.sampled_from([b"a", b"b", b" ", b"\xf0", b"\xe6\xbc", b"\xff", b"\xc3\xa9"]), min_size=1
    ).map(b"".join),
)


@settings(max_examples=200, deadline=None)
@given(datas, st.lists(st.integers(0, 60), max_size=8), st.text("ab漢\n", min_size=1, max_size=3))
def test_the_stream_is_the_text_up_to_the_stop_wherever_tokens_are_cut(
    data: bytes, cuts: list[int], stop: str
) -> None:
    whole = data.decode("utf-8", "replace")
    expected = whole.partition(stop)[0]
    events = speak(cut(data, cuts), stop)
    texts = shown(events)
    assert "".join(texts) == text_of(events) == expected
    assert sum(text.count("\ufffd") for text in texts) == expected.count("\ufffd")
    assert finished(events).stop_string == (stop if stop in whole else None)
