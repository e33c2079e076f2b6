"""Characters are never split, and bad bytes never stall the text."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.events import Delta
from inference.text.detokenizer import Detokenizer
from tests.engine.driving import ask, finished, make_engine, run_one, text_of


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(bounds)]


def decode(pieces: list[bytes]) -> tuple[list[str], str]:
    detokenizer = Detokenizer()
    texts = [detokenizer.push(piece) for piece in pieces]
    return texts, detokenizer.flush()


def test_a_byte_at_a_time_gives_whole_characters_only() -> None:
    data = "ok 😺 漢字 é".encode()
    texts, rest = decode([bytes((byte,)) for byte in data])
    assert "".join(texts) == "ok 😺 漢字 é"
    assert rest == ""
    assert "\ufffd" not in "".join(texts)
    assert sum(bool(text) for text in texts) == len("ok 😺 漢字 é")


def test_a_bad_byte_becomes_one_mark_and_the_rest_flows() -> None:
    texts, rest = decode([b"\xf0", b"a", b"b"])
    assert texts == ["", "\ufffda", "b"]
    assert rest == ""


@pytest.mark.parametrize("tail", [b"\xf0\x9f\x98", b"\xe6\xbc", b"\xc3"])
def test_a_truncated_tail_is_one_mark_at_the_end(tail: bytes) -> None:
    texts, rest = decode([b"ok", *[bytes((byte,)) for byte in tail]])
    assert "".join(texts) == "ok"
    assert rest == "\ufffd"


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=12))
def test_the_cuts_never_matter(data: bytes, cuts: list[int]) -> None:
    whole_texts, whole_rest = decode([data])
    texts, rest = decode(pieces_of(data, cuts))
    assert "".join(texts) + rest == "".join(whole_texts) + whole_rest
    assert "".join(texts) + rest == data.decode("utf-8", "replace")


def test_every_delta_of_the_engine_is_valid_text() -> None:
    events = run_one(make_engine("ok 😺 漢字 é"), ask("a"))
    texts = [event.text for event in events if isinstance(event, Delta)]
    assert "".join(texts) == "ok 😺 漢字 é"
    for text in texts:
        assert "\ufffd" not in text
        text.encode("utf-8")


def test_the_engine_flushes_a_truncated_answer() -> None:
    reply = b"\xf0ab\xe6\xbc".decode("utf-8", "surrogateescape")
    events = run_one(make_engine(reply), ask("a"))
    assert text_of(events) == "\ufffdab\ufffd"
    assert finished(events).reason == "stop"
