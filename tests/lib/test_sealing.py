"""Sealed secrets open with their key, for their context, undamaged, and not otherwise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llamaweb.lib.sealing import PREFIX, UnsealError, seal, unseal

KEY, CONTEXT = "a long random key", "https://api.example.org:443"


@given(st.text())
def test_there_and_back(text: str) -> None:
    sealed = seal(text, key=KEY, context=CONTEXT)
    assert unseal(sealed, key=KEY, context=CONTEXT) == text
    assert sealed != seal(text, key=KEY, context=CONTEXT)


def test_it_shows_nothing() -> None:
    assert "sk-secret" not in seal("sk-secret", key=KEY, context=CONTEXT)


@pytest.mark.parametrize(
    ("key", "context"), [("another key", CONTEXT), (KEY, "https://evil.example.org:443")]
)
def test_otherwise_it_stays_closed(key: str, context: str) -> None:
    with pytest.raises(UnsealError):
        unseal(seal("x", key=KEY, context=CONTEXT), key=key, context=context)


@given(st.text(max_size=80))
def test_what_was_never_sealed(text: str) -> None:
    for value in (text, PREFIX + text):
        with pytest.raises(UnsealError):
            unseal(value, key=KEY, context=CONTEXT)


def test_a_changed_letter_is_noticed() -> None:
    sealed = seal("x" * 40, key=KEY, context=CONTEXT)
    other = "A" if sealed[30] != "A" else "B"
    with pytest.raises(UnsealError):
        unseal(sealed[:30] + other + sealed[31:], key=KEY, context=CONTEXT)
