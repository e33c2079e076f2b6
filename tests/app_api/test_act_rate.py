"""How often one person may act by REST."""

from __future__ import annotations

import time
from typing import Any

import pytest

from conversations.edge import act_rate
from tests.app_api.world import Person

pytestmark = pytest.mark.django_db


def create(person: Person) -> Any:
    return person.ask("POST", "conversations", {})


def test_beyond_it_acts_wait_and_reading_goes_on(
    alice: Any, bob: Any, queue: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(act_rate, "ACTS_PER_MINUTE", 2)
    person = Person(alice)
    assert [create(person).status_code for _ in range(2)] == [201, 201]
    response = create(person)
    assert response.status_code == 429
    error = response.json()["error"]
    assert (error["code"], error["retryable"]) == ("busy", True)
    assert "at most 2 a minute" in error["message"]
    assert 1 <= int(response["Retry-After"]) <= 60
    assert person.ask("GET", "conversations").status_code == 200
    assert create(Person(bob)).status_code == 201


def test_redis_away_keeps_nobody_from_acting(
    alice: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(act_rate, "ACTS_PER_MINUTE", 1)
    monkeypatch.setattr(act_rate, "_away_until_ts", 0.0)
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    person = Person(alice)
    assert [create(person).status_code for _ in range(3)] == [201] * 3
    assert act_rate._away_until_ts > time.monotonic()  # not asked for each of them
