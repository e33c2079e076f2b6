"""Tokens of one-time links: random, kept only as a digest under the key that signs links."""

from __future__ import annotations

import secrets

from django.utils.crypto import salted_hmac

TOKEN_BYTES = 32
MAX_TOKEN_LEN = 64


def new_token() -> str:
    """256 random bits, fit for an address."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def token_digest(kind: str, raw: str) -> str:
    """What is stored of `raw`; a token of one `kind` is worth nothing as another."""
    return salted_hmac(f"llamaweb.accounts.{kind}", raw, algorithm="sha256").hexdigest()
