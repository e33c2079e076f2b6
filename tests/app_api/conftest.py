"""The browser app's API on the real queue, with tests that are the engine themselves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app_api.world import World, make_world
from tests.conversations.conftest import engine, queue
from tests.conversations.driving import Engine

__all__ = ["engine", "queue"]


@pytest.fixture
def world(alice: Any, bob: Any, carol: Any, engine: Engine) -> World:
    """A conversation of alice's that nobody else may read yet."""
    return make_world(alice, bob, carol)
