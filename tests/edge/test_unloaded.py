"""A model that an administrator has unloaded: listed, and refused at once when it is asked."""

from __future__ import annotations

import pytest
from django.test import AsyncClient

from inference import api
from inference.api import ModelInfo
from tests.edge.wire import CHAT, HELLO, TEXT
from tests.fakes.inference_api import FakeInference


@pytest.fixture(autouse=True)
def _unloaded(fake: FakeInference, monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(user_id: int, name: str | None, only: object) -> ModelInfo:
        return ModelInfo("tiny", 1_700_000_000, 4, "mock", is_loaded=False)

    monkeypatch.setattr(api, "model_resolve_for", resolve)


@pytest.mark.parametrize(
    ("path", "body"), [(CHAT, {"messages": HELLO}), (TEXT, {"prompt": "Hello"})]
)
@pytest.mark.parametrize("stream", [False, True])
async def test_requests_are_refused_at_once(
    path: str, body: dict[str, object], stream: bool, fake: FakeInference
) -> None:
    response = await AsyncClient().post(
        path, body | {"stream": stream}, content_type="application/json"
    )
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (503, "unavailable_error")
    assert error["message"] == "model tiny is not loaded"
    assert fake.submitted == []


async def test_it_is_still_named(fake: FakeInference) -> None:
    assert (await AsyncClient().get("/v1/models/tiny")).status_code == 200
