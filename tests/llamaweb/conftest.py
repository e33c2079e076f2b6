"""All of these may use the instance's Redis."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _redis(redis_server: str) -> None:
    """Running."""
