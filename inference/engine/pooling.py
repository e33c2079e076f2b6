"""Vectors of texts from those of their tokens, which may come in pieces."""

from __future__ import annotations

import numpy as np

from inference.engine.embedding import Piece
from inference.engine.vectors import Vectors


class TokenPool:
    """Holds what the pieces of one text gave until its last one. `is_mean`: one vector a text, else
    one a token."""

    def __init__(self, *, is_mean: bool) -> None:
        self._is_mean = is_mean
        self._held: list[Vectors] = []

    def take(self, piece: Piece, rows: Vectors) -> Vectors:
        """The text's vectors with its last piece, an empty array before; `rows` (tokens,
        dimensions) are those of this piece, and aren't kept."""
        if piece.start == 0:
            self._held = []
        self._held.append(rows.sum(axis=0, keepdims=True) if self._is_mean else rows.copy())
        if not piece.is_last:
            return np.empty((0, rows.shape[1]), np.float32)
        found, self._held = np.concatenate(self._held), []
        if not self._is_mean:
            return found
        length = piece.start + len(piece.tokens)
        mean: Vectors = (found.sum(axis=0, keepdims=True) / length).astype(np.float32)
        return mean
