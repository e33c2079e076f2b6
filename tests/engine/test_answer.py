"""Stop strings, indent and characters together: the text never depends on where tokens are cut."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from inference.engine.stopping import Answer, Ended
from inference.protocol.params import Limits
from tests.text.byte_tokenizer import ByteTokenizer


class PieceTokenizer(ByteTokenizer):
    """Token i is `pieces[i]`; the last one ends."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self.pieces = pieces

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        return self.pieces[token_id]

    def is_end(self, token_id: int) -> bool:
        return token_id == len(self.pieces)


def speak(pieces: list[bytes], limits: Limits) -> tuple[str, Ended]:
    answer = Answer(PieceTokenizer(pieces), limits, room=10_000)
    shown = ""
    for token in range(len(pieces) + 1):
        text, ended = answer.push(token)
        shown += text
        if ended is not None:
            return shown, ended
    raise AssertionError("it never ended")


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


datas = st.one_of(
    st.text("ab \n漢😺", max_size=20).map(str.encode),
    st.lists(st.sampled_from([b"a", b"b", b"\n", b" ", b"\xf0\x9f", b"\xff", b"\xc3\xa9"])).map(
        b"".join
    ),
)
limitses = st.builds(
    Limits,
    stop=st.lists(st.text("ab\n漢\ufffd", min_size=1, max_size=3), max_size=3).map(tuple),
    min_indent=st.integers(0, 2),
)


@given(datas, st.lists(st.integers(0, 60), max_size=10), limitses)
def test_the_cuts_never_matter(data: bytes, cuts: list[int], limits: Limits) -> None:
    whole = speak([bytes((byte,)) for byte in data], limits)
    assert speak(cut(data, cuts), limits) == whole
    assert data.decode("utf-8", "replace").startswith(whole[0])
    assert not any(stop in whole[0] for stop in limits.stop)


@given(datas, st.lists(st.integers(0, 60), max_size=10), limitses, st.integers(0, 10))
def test_an_end_from_outside_loses_nothing_but_half_a_character(
    data: bytes, cuts: list[int], limits: Limits, num_tokens: int
) -> None:
    limits = replace(limits, min_indent=0)  # what is held may be a line that is out for its indent
    pieces = cut(data, cuts)
    answer = Answer(PieceTokenizer(pieces), limits, room=10_000)
    shown = ""
    said = pieces[:num_tokens]
    for token in range(len(said)):
        text, ended = answer.push(token)
        shown += text
        if ended is not None:
            return
    shown += answer.release()
    text = b"".join(said).decode("utf-8", "replace")
    assert text.startswith(shown)
    assert text[len(shown) :] in ("", "\ufffd")


@given(datas, st.integers(1, 12), limitses)
def test_a_limit_loses_nothing(data: bytes, max_tokens: int, limits: Limits) -> None:
    pieces = [bytes((byte,)) for byte in data]
    limited = Limits(max_tokens=max_tokens, stop=limits.stop, min_indent=limits.min_indent)
    if len(pieces) <= max_tokens:
        return
    shown, ended = speak(pieces, limited)
    assert (shown, ended.stop_string) == _reference(pieces[:max_tokens], limits)


def _reference(pieces: list[bytes], limits: Limits) -> tuple[str, str | None]:
    shown, ended = speak(pieces, limits)
    return shown, ended.stop_string
