"""A client of the family."""

from __future__ import annotations

import pytest

from tests.edge.ollama.lines import Ollama


@pytest.fixture
def ollama() -> Ollama:
    """A client of the routes."""
    return Ollama()
