"""Pieces of a text have the special tokens of the whole, found as llama.cpp finds them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.text import special_cuts
from inference.text.special_cuts import SpecialCuts

CHAT = [b"<|im_start|>", b"<|im_end|>", b"<|end|>", b"<file_sep>", b"<filename>"]
RUNS = [b"\n", b"\n\n", b"\n\n\n", b"<a>", b"<a>\n", b"b<", b"[x]"]


def specials(data: bytes, texts: list[bytes]) -> list[bytes]:
    """The parts llama.cpp splits `data` into: the longest token first, each over all text left."""
    parts: list[tuple[bytes, bool]] = [(data, False)]
    for text in sorted(texts, key=len, reverse=True):
        after: list[tuple[bytes, bool]] = []
        for part, is_special in parts:
            if is_special:
                after.append((part, True))
                continue
            for index, plain in enumerate(part.split(text)):
                after += [(text, True)] * (index > 0) + [(plain, False)] * bool(plain)
        parts = after
    return [part for part, _ in parts]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special_cuts, "MIN_SPECIALS", 2)


def test_which_tokens_may_end_a_piece() -> None:
    assert SpecialCuts(CHAT).clean == set(CHAT)
    assert SpecialCuts(RUNS).clean == {b"[x]"}
    assert SpecialCuts(CHAT, stripping=[b"<|end|>"]).clean == {*CHAT} - {b"<|end|>"}
    assert SpecialCuts([b"abab", b"xcx", b"c"]).clean == set()


@pytest.mark.parametrize("texts", [CHAT, RUNS], ids=["chat", "runs"])
@given(data=st.data())
def test_pieces_have_the_specials_of_the_whole(texts: list[bytes], data: st.DataObject) -> None:
    crumbs = [*texts, b"a", b"<", b">", b"|im_", b"\n", "é".encode()]
    whole = b"".join(data.draw(st.lists(st.sampled_from(crumbs), max_size=40)))
    pieces = list(SpecialCuts(texts).pieces(whole))
    assert b"".join(pieces) == whole
    parts = itertools.chain.from_iterable(specials(piece, texts) for piece in pieces)
    assert list(parts) == specials(whole, texts)


def test_many_make_many_pieces_and_few_make_one() -> None:
    cuts = SpecialCuts(CHAT)
    assert list(cuts.pieces(b"<|end|>" * 5)) == [b"<|end|>" * 2, b"<|end|>" * 2, b"<|end|>"]
    assert list(cuts.pieces(b"a<|end|>b")) == [b"a<|end|>b"]
    assert list(cuts.pieces(b"")) == [b""]
    assert list(SpecialCuts([]).pieces(b"a")) == [b"a"]


def test_unclean_ones_are_cut_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(special_cuts, "MAX_SPECIALS", 10)
    pieces = list(SpecialCuts(RUNS).pieces(b"\n" * 3 * 25))
    assert [len(piece) for piece in pieces] == [30, 30, 15]
