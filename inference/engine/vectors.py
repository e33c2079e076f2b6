"""Arithmetic of embedding vectors, and how they travel."""

from __future__ import annotations

import base64
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from inference.protocol.vectors import BY_LARGEST, UNCHANGED

Vectors: TypeAlias = NDArray[np.float32]  # (number of vectors, dimensions)

LARGEST = 32_760.0  # what the largest number becomes then: it fits 16 bits


def normalized(vectors: Vectors, norm: int) -> Vectors:
    """`vectors` divided by their norms, see `EmbedRequest.normalize`; zeros stay zeros."""
    if norm == UNCHANGED:
        return vectors
    wide = vectors.astype(np.float64)
    largest = np.abs(wide).max(axis=-1, keepdims=True, initial=0.0)
    safe = np.where(largest > 0.0, largest, 1.0)
    scaled = wide / safe  # within -1..1, so that no power of it overflows
    if norm == BY_LARGEST:
        return (scaled * LARGEST).astype(np.float32)
    lengths = np.sum(np.abs(scaled) ** norm, axis=-1, keepdims=True) ** (1.0 / norm)
    return (scaled / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)


def encoded(vectors: Vectors) -> str:
    """Base64 of all numbers as little-endian 32-bit floats, row by row."""
    return base64.b64encode(np.ascontiguousarray(vectors, "<f4").tobytes()).decode()


def decoded(text: str, dimensions: int) -> Vectors:
    """What `encoded` made of vectors of that length; read-only.

    Raises:
        ValueError: it didn't.
    """
    numbers = np.frombuffer(base64.b64decode(text, validate=True), "<f4")
    return numbers.reshape(-1, dimensions)
