"""The edge on logs that stay."""

from __future__ import annotations

import pytest

from tests.edge.resumable.client import Streams
from tests.fakes.kept_logs import KeptLogs


@pytest.fixture
def kept(as_alice: None, monkeypatch: pytest.MonkeyPatch) -> KeptLogs:
    """The facade; a test says what is in its logs."""
    made = KeptLogs()
    made.install(monkeypatch)
    return made


@pytest.fixture
def streams() -> Streams:
    """A client of the routes."""
    return Streams()
