"""All of these need the instance's Redis: throttles live there."""

from __future__ import annotations

import pytest

from llamaweb.accounts import selectors


@pytest.fixture(autouse=True)
def _redis(redis_server: str) -> None:
    """Running."""


@pytest.fixture(autouse=True)
def _no_memory_of_unknown_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "_unknown", selectors._Unknown())
