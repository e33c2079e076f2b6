"""The browser app's API on the real queue, with tests that are the engine themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from llamaweb.accounts import throttle
from tests.app_api.world import World, make_world
from tests.conversations.conftest import engine, queue
from tests.conversations.driving import Engine

__all__ = ["engine", "queue"]


@pytest.fixture(autouse=True)
def _counts_of_this_test() -> Iterator[None]:
    """Users of different tests have the same ids: each counts in the Redis that it names."""
    throttle._storage.cache_clear()
    yield
    throttle._storage.cache_clear()


@pytest.fixture
def world(alice: Any, bob: Any, carol: Any, engine: Engine) -> World:
    """A conversation of alice's that nobody else may read yet."""
    return make_world(alice, bob, carol)
