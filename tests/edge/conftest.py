"""The edge without a database: a known caller, and a scripted facade."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.http import HttpRequest

from inference.protocol.events import Event
from inference.queues.contract import Position, Read
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.caller import Caller
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference, scripted

CALLER = Caller(7, "alice", False, frozenset({"inference"}), key_id=3)


def be(monkeypatch: pytest.MonkeyPatch, caller: Caller) -> None:
    """Every request from now on is of another."""

    async def who(self: ApiKeyAuth, request: HttpRequest) -> Caller:
        return caller

    monkeypatch.setattr(ApiKeyAuth, "__call__", who)


@pytest.fixture
def as_alice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request is alice's."""
    be(monkeypatch, CALLER)


@pytest.fixture
def fake(as_alice: None, monkeypatch: pytest.MonkeyPatch) -> FakeInference:
    """The facade; a test sets its script with `says`."""
    made = FakeInference(scripted())
    made.install(monkeypatch)
    return made


@pytest.fixture
def says(fake: FakeInference) -> Callable[..., FakeInference]:
    """Let every generation follow these events."""

    def set_script(*events: Event | Position | Read) -> FakeInference:
        fake.script = scripted(*events)
        return fake

    return set_script


@pytest.fixture
def wire() -> Wire:
    """A client of the routes."""
    return Wire()
