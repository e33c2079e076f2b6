"""A client of the Anthropic routes."""

from __future__ import annotations

import pytest

from tests.edge.anthropic.wire import Client


@pytest.fixture
def client() -> Client:
    """See the class."""
    return Client()
