"""The form of a key."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamaweb.accounts import keys

KEY = keys.new_key()


def test_a_new_key_is_recognisable_and_well_formed() -> None:
    assert KEY.startswith("lw-")
    assert len(KEY) == keys.KEY_LEN
    assert keys.is_well_formed(KEY)
    assert keys.new_key() != KEY


@given(
    place=st.integers(len(keys.PREFIX), keys.KEY_LEN - 1),
    letter=st.sampled_from(string.ascii_letters + string.digits),
)
def test_one_wrong_character_is_noticed(place: int, letter: str) -> None:
    wrong = KEY[:place] + letter + KEY[place + 1 :]
    assert keys.is_well_formed(wrong) is (wrong == KEY)


@pytest.mark.parametrize(
    "raw",
    ["", "lw-", KEY[:-1], KEY + "A", KEY.upper(), "sk-" + KEY[3:], "lw-" + "ä" * 46],
    ids=["nothing", "no key", "cut", "longer", "other case", "other prefix", "not ASCII"],
)
def test_anything_else_is_not_well_formed(raw: str) -> None:
    assert not keys.is_well_formed(raw)


def test_the_digest_depends_on_the_server_key() -> None:
    assert keys.digest(KEY, "one") != keys.digest(KEY, "two")
    assert len(keys.digest(KEY, "one")) == 64
    assert KEY not in keys.digest(KEY, "one")


def test_only_the_start_is_shown() -> None:
    assert KEY.startswith(keys.shown(KEY))
    assert len(keys.shown(KEY)) == 9
