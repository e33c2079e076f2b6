"""Secrets that are needed in clear again: encrypted and bound to what they were given for.

AES-256-GCM with a random nonce. Without the installation's key, or for another context than they
were sealed for, they can't be opened; a copy of the database alone says nothing. Pure: no Django.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

PREFIX = "v1:"
NONCE_LEN = 12


class UnsealError(Exception):
    """Sealed under another key, for another context, or damaged."""


def seal(text: str, *, key: str, context: str) -> str:
    """`text`, to be opened with the same `key` and `context` only."""
    nonce = os.urandom(NONCE_LEN)
    sealed = AESGCM(_derived(key)).encrypt(nonce, text.encode(), context.encode())
    return PREFIX + base64.urlsafe_b64encode(nonce + sealed).decode()


def unseal(sealed: str, *, key: str, context: str) -> str:
    """The text in `sealed`.

    Raises:
        UnsealError: see there.
    """
    try:
        if not sealed.startswith(PREFIX):
            raise ValueError("not sealed")
        data = base64.urlsafe_b64decode(sealed.removeprefix(PREFIX))
        opened = AESGCM(_derived(key)).decrypt(data[:NONCE_LEN], data[NONCE_LEN:], context.encode())
        return opened.decode()
    except (ValueError, InvalidTag) as error:
        raise UnsealError("it was sealed otherwise, or is damaged") from error


def _derived(key: str) -> bytes:
    """A key for this use alone; `key` is long and random, so no slow derivation."""
    return hmac.new(key.encode(), b"llamaweb sealed secrets", hashlib.sha256).digest()
