"""`/health`: 503 with the reason until an engine is ready."""

from __future__ import annotations

import pytest
from django.db import OperationalError
from django.test import AsyncClient

from inference import api
from inference.api import EngineSummary
from llamaweb.lib.errors import UnavailableError


@pytest.fixture(params=["/health", "/v1/health"])
def address(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def say(monkeypatch: pytest.MonkeyPatch, answer: EngineSummary | Exception) -> None:
    async def engine_status() -> EngineSummary:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(api, "engine_status", engine_status)


async def test_ready(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, EngineSummary(True, ""))
    response = await AsyncClient().get(address)
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_a_default_model_that_a_request_would_bring_back_is_no_trouble(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(monkeypatch, EngineSummary(False, "model x isn't in memory", on_demand=True))
    assert (await AsyncClient().get(address)).status_code == 200


async def test_head_has_the_status_alone(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, EngineSummary(True, ""))
    response = await AsyncClient().head(address)
    assert (response.status_code, response.content) == (200, b"")
    say(monkeypatch, EngineSummary(False, "model x is loading"))
    assert (await AsyncClient().head(address)).status_code == 503


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (EngineSummary(False, "model x is loading"), "model x is loading"),
        (UnavailableError("Redis can't be reached"), "Redis can't be reached"),
        (OperationalError("no such table"), "the database can't be used"),
    ],
)
async def test_not_ready(
    address: str,
    answer: EngineSummary | Exception,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    say(monkeypatch, answer)
    response = await AsyncClient().get(address)
    assert response.status_code == 503
    assert response["Retry-After"] == "1"
    assert response.json()["error"] == {
        "message": "Loading model",
        "type": "unavailable_error",
        "param": None,
        "code": 503,
        "reason": reason,
    }


async def test_only_reading(address: str) -> None:
    response = await AsyncClient().post(address)
    assert (response.status_code, response["Allow"]) == (405, "GET, HEAD")
