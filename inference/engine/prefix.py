"""What a prompt is made of for the prompt cache, and what must be equal for it to be shared.

An element is a token or a piece of media. A prefix is laid out by cells of the KV cache: one a
token, `num_tokens` a piece of media; a match never ends inside media.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Codes: TypeAlias = NDArray[np.int64]

TOKEN_BITS = 32  # of a code


@dataclass(frozen=True, slots=True)
class Media:
    """An image or sound: `num_tokens` cells and `num_pos` positions (they may differ)."""

    sha256: str
    num_tokens: int
    num_pos: int


Element: TypeAlias = int | Media


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What must be equal for KV to mean the same: the backend's `fingerprint` (model, library
    build, KV types, flash attention, rope, control vectors) and the ordered adapters, each by the
    digest of its file, with scales. An activated adapter isn't part of it but of the codes.
    """

    fingerprint: str
    adapters: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Activation:
    """From cell `start` on an adapter acts: the same token isn't the same any more. `code`: of the
    adapter and its scale, above the bits of tokens."""

    start: int
    code: int

    @classmethod
    def of(cls, start: int, digest: str, scale: float) -> Activation:
        """The activation of an adapter by its file's digest."""
        hashed = hashlib.blake2b(f"{digest}/{scale}".encode(), digest_size=4).digest()
        return cls(start, (int.from_bytes(hashed, "big") >> 1 | 1) << TOKEN_BITS)


@dataclass(frozen=True, slots=True)
class Prefix:
    """Elements as one code a cell. `inside[i]`: cell i goes on with media that began before it;
    None: there are no media."""

    codes: Codes
    inside: NDArray[np.bool_] | None = None

    def whole(self, length: int) -> int:
        """`length` cells or the fewer that end between elements."""
        if self.inside is None:
            return length
        while 0 < length < len(self.inside) and self.inside[length]:
            length -= 1
        return length


def encode(elements: Iterable[Element]) -> Prefix:
    """The prefix of `elements`; media codes are negative, so that no token is taken for one."""
    codes: list[int] = []
    inside: list[bool] = []
    has_media = False
    for element in elements:
        if isinstance(element, Media):
            has_media = True
            codes += [_media_code(element)] * element.num_tokens
            inside += [index > 0 for index in range(element.num_tokens)]
        else:
            codes.append(element)
            inside.append(False)
    array = np.array(codes, np.int64)
    return Prefix(array, np.array(inside, np.bool_) if has_media else None)


def of_tokens(tokens: NDArray[np.int32], activation: Activation | None = None) -> Prefix:
    """The prefix of plain tokens."""
    codes = tokens.astype(np.int64)
    if activation is not None:
        codes[activation.start :] ^= activation.code
    return Prefix(codes)


def _media_code(media: Media) -> int:
    text = f"{media.sha256}/{media.num_tokens}/{media.num_pos}".encode()
    return -1 - (int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1)
