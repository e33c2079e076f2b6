"""Telling model files apart without reading all of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

SAMPLE_LEN, NUM_SAMPLES = 65_536, 64


def file_digest(path: Path) -> str:
    """Hexadecimal digest of the file's size and of samples spread over it.

    Raises:
        OSError: it can't be read.
    """
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        for offset in range(0, size, max(SAMPLE_LEN, size // NUM_SAMPLES)):
            file.seek(offset)
            digest.update(file.read(SAMPLE_LEN))
    return digest.hexdigest()
