"""GET and POST /lora-adapters: what a model has, and the scales an administrator gives it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from inference import api
from inference.edge.models import lora
from inference.edge.openai.adapters import adapters_of
from inference.engine.adapters import Adapter, told
from inference.models import ModelConfig
from inference.queues.contract import EngineStatus
from llamaweb.accounts.models import AuditEvent, Scope, User
from tests.factories import UserFactory, make_key
from tests.registry.gguf_files import values, whole

pytestmark = pytest.mark.django_db(transaction=True)
URL = "/lora-adapters"


@pytest.fixture
def root(transactional_db: None) -> User:
    return UserFactory.create(username="root", is_staff=True, is_superuser=True)


@pytest.fixture
def config(transactional_db: None, tmp_path: Path) -> ModelConfig:
    """A model with two adapters."""
    more = {"general.type": "adapter", "adapter.type": "lora"}
    kept = []
    for name, scale in (("style", 1.0), ("tone", 0.5)):
        path = tmp_path / f"{name}.gguf"
        path.write_bytes(whole(values() | more))
        kept.append({"path": str(path), "scale": scale, "name": name})
    return ModelConfig.objects.create(name="m", is_default=True, engine_class="mock", adapters=kept)


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> list[EngineStatus]:
    """Heartbeats; set by the test."""
    found: list[EngineStatus] = []

    async def engine_list(name: str) -> tuple[EngineStatus, ...]:
        return tuple(found)

    monkeypatch.setattr(api, "engine_list", engine_list)
    return found


def ask(user: User, method: str, body: Any = None, *, scope: Scope, query: str = "") -> Any:
    client = Client(headers={"Authorization": f"Bearer {make_key(user, scopes=[scope])}"})
    data = b"" if body is None else json.dumps(body).encode()
    return client.generic(method, URL + query, data, content_type="application/json")


def listed(user: User, query: str = "") -> list[dict[str, Any]]:
    response = ask(user, "GET", scope=Scope.INFERENCE, query=query)
    assert response.status_code == 200
    found: list[dict[str, Any]] = response.json()
    return found


def test_the_adapters_of_a_model(
    alice: User, config: ModelConfig, engines: list[EngineStatus]
) -> None:
    blank = {"task_name": "", "prompt_prefix": ""}
    assert listed(alice) == [
        {"id": 0, "path": "style.gguf", "scale": 1.0, **blank},
        {"id": 1, "path": "tone.gguf", "scale": 0.5, **blank},
    ]
    loaded = told([Adapter("style", "d"), Adapter("tone", "d", 0.5, "poems", "Write:")])
    engines.append(EngineStatus("e", "ready", 1, 0, 0.1, False, {"adapters": loaded}))
    assert listed(alice, "?model=m")[1] == {
        "id": 1, "path": "tone.gguf", "scale": 0.5, "task_name": "poems", "prompt_prefix": "Write:",
    }  # fmt: skip


def test_a_model_without_adapters_and_one_that_is_not_there(alice: User) -> None:
    ModelConfig.objects.create(name="m", is_default=True, engine_class="mock")
    assert listed(alice) == []
    assert ask(alice, "GET", scope=Scope.INFERENCE, query="?model=x").status_code == 404


def test_scales_are_kept_and_the_engine_starts_anew(root: User, config: ModelConfig) -> None:
    before = config.updated_at
    response = ask(root, "POST", [{"id": 1, "scale": 0.25}], scope=Scope.ADMIN)
    assert (response.status_code, response.json()) == (200, {"success": True})
    config.refresh_from_db()
    assert [one["scale"] for one in config.adapters] == [0.0, 0.25]
    assert config.updated_at > before
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.detail["changed"]) == ("model_config.changed", ["adapters"])
    assert ask(root, "POST", [], scope=Scope.ADMIN).status_code == 200
    assert [one["scale"] for one in listed(root)] == [0.0, 0.0]


def test_what_is_changed_meanwhile_stays(
    root: User, config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_slowly(scales: list[Any], num: int) -> Any:
        ModelConfig.objects.filter(pk=config.pk).update(num_slots=7, context_len=512)
        return adapters_of(scales, num)

    monkeypatch.setattr(lora, "adapters_of", read_slowly)
    assert ask(root, "POST", [{"id": 0, "scale": 2}], scope=Scope.ADMIN).status_code == 200
    config.refresh_from_db()
    assert (config.num_slots, config.context_len) == (7, 512)
    assert [one["scale"] for one in config.adapters] == [2.0, 0.0]
    assert AuditEvent.objects.latest("id").detail["changed"] == ["adapters"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"id": 0, "scale": 1}, ""),
        ("x", ""),
        ([1], "lora[0]"),
        ([{"id": 2, "scale": 1}], "lora[0].id"),
        ([{"id": 0, "scale": 1000}], "lora[0].scale"),
    ],
)
def test_what_can_not_be_a_scale(root: User, config: ModelConfig, body: Any, param: str) -> None:
    response = ask(root, "POST", body, scope=Scope.ADMIN)
    assert response.status_code == 400
    assert not param or response.json()["error"]["param"] == param
    config.refresh_from_db()
    assert [one["scale"] for one in config.adapters] == [1.0, 0.5]


def test_only_administrators_scale(alice: User, root: User, config: ModelConfig) -> None:
    assert ask(alice, "POST", [], scope=Scope.ADMIN).status_code == 403
    assert ask(root, "POST", [], scope=Scope.INFERENCE).status_code == 403
