"""A text's vectors are the same, however its tokens came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.embedding import Piece
from inference.engine.pooling import TokenPool

DIMENSIONS = 5


@pytest.mark.parametrize("is_mean", [True, False])
@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_pieces_give_what_the_whole_gives(is_mean: bool, lengths: list[int]) -> None:
    num = sum(lengths)
    rows = np.random.default_rng(num).standard_normal((num, DIMENSIONS)).astype(np.float32)
    pool = TokenPool(is_mean=is_mean)
    start = 0
    for length in lengths:
        end = start + length
        found = pool.take(Piece((1,) * length, start, end == num), rows[start:end])
        assert (len(found) > 0) is (end == num)
        start = end
    expected = rows.mean(axis=0, keepdims=True) if is_mean else rows
    assert found.dtype == np.float32
    assert np.allclose(found, expected, atol=1e-6)


def test_a_text_that_was_given_up_leaves_nothing_behind() -> None:
    pool = TokenPool(is_mean=True)
    pool.take(Piece((1, 2), 0, is_last=False), np.full((2, DIMENSIONS), 9, np.float32))
    found = pool.take(Piece((3,)), np.ones((1, DIMENSIONS), np.float32))
    assert (found == 1).all()


def test_token_vectors_outlive_the_buffer_that_they_were_read_from() -> None:
    pool = TokenPool(is_mean=False)
    buffer = np.ones((2, DIMENSIONS), np.float32)
    found = pool.take(Piece((1, 2)), buffer)
    buffer[:] = 0
    assert (found == 1).all()
