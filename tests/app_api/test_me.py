"""What the app learns at its start, also when half of the server is away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from conversations.edge import me
from inference import api, bus
from inference.models import ModelConfig
from inference.protocol.reasons import Other, reason, reason_info
from inference.queues.contract import SUPERVISOR_ID, Beat
from tests.app_api.world import Person
from tests.conversations.driving import Engine

pytestmark = pytest.mark.django_db


def test_who_is_signed_in(alice: Any, engine: Engine) -> None:
    alice.theme, alice.language, alice.is_staff = "dark", "de", True
    alice.save()
    found = Person(alice).json("GET", "me")
    assert (found["username"], found["theme"], found["language"]) == ("alice", "dark", "de")
    assert found["is_staff"]
    assert not found["has_only_starter_model"]
    assert found["limits"]["text_chars"] == 512 * 1024


def test_models_say_whether_they_answer(alice: Any, engine: Engine) -> None:
    ModelConfig.objects.create(name="other", engine_class="mock")
    person = Person(alice)
    first, second = person.json("GET", "models")["models"]
    assert (first["name"], first["is_default"], first["is_ready"]) == ("mock", True, False)
    assert (second["name"], second["is_default"]) == ("other", False)
    assert "no engine" in first["reason"]
    engine.queue.beat("mock", Beat("e", "ready", info={"max_context": 4096}))
    first, second = person.json("GET", "models")["models"]
    assert (first["is_ready"], first["reason"], first["max_context"]) == (True, "", 4096)
    assert not second["is_ready"]


def test_what_a_model_is_chosen_by(alice: Any, engine: Engine) -> None:
    ModelConfig.objects.update(
        aliases=["small"], tags=["fast"], chat_template="<think>", context_len=512
    )
    engine.queue.beat("mock", Beat("e", "loading", info={"load_progress": 0.25}))
    (model,) = Person(alice).json("GET", "models")["models"]
    assert model == {
        "name": "mock",
        "title": "",
        "aliases": ["small"],
        "tags": ["fast"],
        "quantization": "",
        "capabilities": ["reasoning"],
        "is_default": True,
        "is_ready": False,
        "state": "loading",
        "reason": "model mock is loading",
        "load_progress": 0.25,
        "max_context": 512,
    }


def test_a_model_for_some_is_absent_for_others(alice: Any, bob: Any, engine: Engine) -> None:
    secret = ModelConfig.objects.create(name="secret", engine_class="mock", is_restricted=True)
    secret.users.add(bob)
    why = reason("model mock waits for memory: ", Other("secret"), " is pinned")
    info = {"on_demand": 1, **reason_info(why)}
    engine.queue.beat("mock", Beat(SUPERVISOR_ID, "stopped", info=info))
    for person, names in ((alice, ["mock"]), (bob, ["mock", "secret"])):
        for path in ("me", "models"):
            found = Person(person).json("GET", path)["models"]
            assert [model["name"] for model in found] == names
            assert ("secret" in found[0]["reason"]) == (person == bob)


def test_the_tiny_model_alone_is_told(alice: Any, engine: Engine) -> None:
    ModelConfig.objects.all().delete()
    ModelConfig.objects.create(
        name="tiny", engine_class="llama", is_starter=True, is_default=True, model_path=""
    )
    assert Person(alice).json("GET", "me")["has_only_starter_model"]
    ModelConfig.objects.create(name="mine", engine_class="llama", model_path="/m.gguf")
    assert not Person(alice).json("GET", "me")["has_only_starter_model"]


def test_no_model_at_all(alice: Any, engine: Engine) -> None:
    ModelConfig.objects.all().delete()
    found = Person(alice).json("GET", "me")
    assert (found["models"], found["has_only_starter_model"]) == ([], False)


@pytest.fixture
def redis_away(settings: Any) -> Any:
    """Nothing listens where the settings say."""
    nowhere = "redis://127.0.0.1:1/0"
    settings.REDIS_URL = nowhere
    caches = {"default": {**settings.CACHES["default"], "LOCATION": nowhere}}
    settings.CACHES = caches
    bus.sync_queue.cache_clear()
    yield
    bus.sync_queue.cache_clear()


def test_without_redis(alice: Any, redis_away: None) -> None:
    ModelConfig.objects.create(name="mock", is_default=True, engine_class="mock")
    person = Person(alice)
    for path in ("me", "models"):
        (model,) = person.json("GET", path)["models"]
        assert not model["is_ready"]
        assert model["reason"]
    result = person.json("POST", "turns", {"parts": [{"text": "accepted is accepted"}]})
    assert result["turn_id"]
    assert person.json("GET", f"conversations/{result['conversation_id']}")["turns"]


def test_a_queue_that_says_nothing(
    alice: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_infos: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(me, "READY_TIMEOUT_S", 0.05)
    monkeypatch.setattr(api, "model_stands", never)
    (model,) = Person(alice).json("GET", "models")["models"]
    assert (model["is_ready"], model["state"]) == (False, "unknown")
    assert model["reason"] == me.NO_ANSWER.text


def test_what_goes_wrong_is_ours(
    alice: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_user_id: int) -> Any:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(api, "model_choices_for", broken)
    response = Person(alice).ask("GET", "me")
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["retryable"]) == (500, "failed", True)
    assert response["X-Request-Id"] in error["message"]
    assert "secret" not in response.content.decode()


def test_addresses_and_methods_that_are_none(alice: Any, engine: Engine) -> None:
    for person in (Person(alice), Person()):
        response = person.ask("GET", "nothing/here")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")
        response = person.ask("PUT", "me")
        assert (response.status_code, response["Allow"]) == (405, "GET")
        assert response.json()["error"]["code"] == "not_supported"
    response = Person(alice).ask("GET", "me", Host="evil.example")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid")


def test_nobody_keeps_an_answer(alice: Any, engine: Engine) -> None:
    for path in ("me", "conversations", "nothing", "conversations/nobody"):
        assert Person(alice).ask("GET", path)["Cache-Control"] == "no-store"
