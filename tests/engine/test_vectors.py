"""Norms of vectors, and how they travel."""

from __future__ import annotations

import base64
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.vectors import decoded, encoded, normalized

NUMBERS = st.floats(-(2.0**100), 2.0**100, width=32)
ROWS = st.lists(st.lists(NUMBERS, min_size=3, max_size=3), min_size=1, max_size=4)


@given(rows=ROWS, norm=st.integers(1, 1000))
def test_the_norm_of_what_was_divided_is_1(rows: list[list[float]], norm: int) -> None:
    found = normalized(np.array(rows, np.float32), norm).astype(np.float64)
    assert np.isfinite(found).all()
    for row, before in zip(found, rows, strict=True):
        length = np.sum(np.abs(row) ** norm) ** (1 / norm)
        # Numbers below what 32 bits hold exactly are gone for good.
        assert length == pytest.approx(1.0, rel=1e-3) if any(before) else length == 0.0


@given(rows=ROWS)
def test_the_largest_number_becomes_one_of_16_bits(rows: list[list[float]]) -> None:
    found = np.abs(normalized(np.array(rows, np.float32), 0)).max(axis=-1)
    for largest, before in zip(found, rows, strict=True):
        assert largest == pytest.approx(32_760.0 if any(before) else 0.0)


def test_unchanged_is_unchanged() -> None:
    rows = np.array([[3.0, 4.0], [0.0, -2.5]], np.float32)
    assert (normalized(rows, -1) == rows).all()
    assert normalized(rows, 2)[0] == pytest.approx([0.6, 0.8])
    assert normalized(rows, 1)[0] == pytest.approx([3 / 7, 4 / 7])


@given(rows=ROWS)
def test_what_travels_is_what_arrives(rows: list[list[float]]) -> None:
    vectors = np.array(rows, np.float32)
    text = encoded(vectors)
    assert (decoded(text, 3) == vectors).all()
    numbers = struct.unpack(f"<{vectors.size}f", base64.b64decode(text))
    assert numbers == tuple(vectors.ravel().tolist())


def test_what_is_no_vector_is_refused() -> None:
    with pytest.raises(ValueError):
        decoded("not base64!", 3)
    with pytest.raises(ValueError):
        decoded(encoded(np.zeros((1, 4), np.float32)), 3)
