"""A folder for sockets: their addresses are short, and pytest's folders aren't."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def short_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="llamaweb-test-") as name:
        yield Path(name)
