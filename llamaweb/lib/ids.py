"""Identifiers: random, unguessable, sortable by nothing."""

from __future__ import annotations

import secrets
import string

_ALPHABET = string.ascii_letters + string.digits
ID_LEN = 32


def new_id(prefix: str = "") -> str:
    """Return `prefix` and 32 random alphanumeric characters (190 bits)."""
    return prefix + "".join(secrets.choice(_ALPHABET) for _ in range(ID_LEN))


def new_seed() -> int:
    """Return a random sampling seed, an unsigned 32-bit integer below llama.cpp's "random" mark."""
    return secrets.randbelow(2**32 - 1)
