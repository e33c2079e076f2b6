"""The form of an API key: `lw-`, 40 random characters, 6 of checksum.

The checksum lets a mistyped or made-up key be refused without a query, and lets scanners tell a
real leak from a lookalike. It proves nothing else. Pure: no Django.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
import zlib

PREFIX = "lw-"
RANDOM_LEN = 40  # 238 bits
CHECKSUM_LEN = 6
KEY_LEN = len(PREFIX) + RANDOM_LEN + CHECKSUM_LEN
SHOWN_LEN = len(PREFIX) + 6
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase


def new_key() -> str:
    """A new key, well-formed."""
    body = PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(RANDOM_LEN))
    return body + _checksum(body)


def is_well_formed(raw: str) -> bool:
    """Whether `raw` can be a key at all."""
    if len(raw) != KEY_LEN or not raw.startswith(PREFIX) or not raw.isascii():
        return False
    body, checksum = raw[:-CHECKSUM_LEN], raw[-CHECKSUM_LEN:]
    return hmac.compare_digest(_checksum(body), checksum)


def digest(raw: str, server_key: str) -> str:
    """What is stored: HMAC-SHA-256 of the key in hexadecimal. The key is random: no slow hash."""
    return hmac.new(server_key.encode(), raw.encode(), hashlib.sha256).hexdigest()


def shown(raw: str) -> str:
    """The start of the key, by which its owner recognises it."""
    return raw[:SHOWN_LEN]


def _checksum(body: str) -> str:
    """CRC-32 in base 62, padded."""
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(CHECKSUM_LEN):
        number, rest = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[rest] + digits
    return digits
