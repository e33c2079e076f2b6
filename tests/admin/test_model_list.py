"""The list of models: how each stands, what memory it takes, what it can do; live."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from inference import bus
from inference.models import ModelConfig, ModelFile
from inference.queues.contract import Beat
from inference.queues.memory import MemoryQueue
from inference.registry.config_services import model_config_add
from inference.registry.gguf.facts import GgufFacts, facts_to_plain
from llamaweb.accounts.models import User
from llamaweb.lib.errors import UnavailableError
from tests.admin.conftest import client_of
from tests.registry.gguf_files import model

pytestmark = pytest.mark.django_db
LIST = "/admin/inference/modelconfig/"
STATE = f"{LIST}state/"


@pytest.fixture
def tiny(models_dir: Path) -> ModelConfig:
    (models_dir / "tiny.gguf").write_bytes(model())
    return model_config_add(name="tiny", path="tiny.gguf", load=True)


def state_of(admin: Client, config: ModelConfig) -> dict[str, Any]:
    (found,) = admin.get(STATE, {"id": config.pk}).json()["models"]
    assert found["id"] == config.pk
    return dict(found)


def test_state_and_memory_follow_the_engine(
    admin: Client, queue: MemoryQueue, tiny: ModelConfig
) -> None:
    assert state_of(admin, tiny)["words"] == "starting"
    queue.beat("tiny", Beat("tiny-abc", "loading", 0, (), info={"load_progress": 0.427}))
    loading = state_of(admin, tiny)
    assert (loading["state"], loading["words"]) == ("loading", "loading 42 %")
    assert re.fullmatch(r"about \d+\.\d\xa0MB", loading["memory"])
    info = {"memory_bytes": 70 * 2**20}
    queue.beat("tiny", Beat("tiny-abc", "ready", 0, (), info=info))
    ready = state_of(admin, tiny)
    assert ready["words"] == "ready"
    assert ready["memory"] == f"70.0\xa0MB in use, {loading['memory']}"


def test_a_model_that_is_off_or_disabled(
    admin: Client, queue: MemoryQueue, tiny: ModelConfig
) -> None:
    ModelConfig.objects.update(wanted="unloaded")
    assert state_of(admin, tiny)["state"] == "not_loaded"
    ModelConfig.objects.update(is_enabled=False)
    assert state_of(admin, tiny)["state"] == "disabled"


def test_the_list_has_a_cell_for_each(admin: Client, tiny: ModelConfig) -> None:
    page = admin.get(LIST).content.decode()
    assert f'data-model="{tiny.pk}" data-live="state"' in page
    assert f'href="/admin/engines/{tiny.pk}/"' in page
    assert re.search(rf'data-model="{tiny.pk}" data-live="memory">about \d', page)
    assert "llamaweb/models.js" in page


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "answers"),
        ({"purpose": "embedding"}, "vectors"),
        ({"purpose": "reranking"}, "ratings"),
        ({"template": "{% if tools %}<tool_call>{% endif %}<think>"}, "answers, tools, reasoning"),
    ],
)
def test_what_it_can_do(admin: Client, fields: dict[str, Any], words: str) -> None:
    template = fields.pop("template", "")
    facts = dataclasses.replace(GgufFacts("model", 3, 1, purpose="text"), **fields)
    file = ModelFile.objects.create(state="ready", path="/m/x", facts=facts_to_plain(facts))
    ModelConfig.objects.create(
        name="x", engine_class="mock", file=file, chat_template=template, is_default=True
    )
    page = admin.get(LIST).content.decode()
    assert re.search(rf"<td[^>]*field-can[^>]*>\s*{words}\s*<", page)


def test_without_redis_nothing_is_told_of_engines(
    admin: Client, queue: MemoryQueue, tiny: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_model: str) -> Any:
        raise UnavailableError("Redis can't be reached")

    monkeypatch.setattr(bus.sync_queue(), "engines", away)
    response = admin.get(STATE, {"id": tiny.pk})
    assert (response.status_code, response.json()) == (503, {"error": "Redis can't be reached"})
    assert admin.get(LIST).status_code == 200


def test_ids_that_are_none(admin: Client, queue: MemoryQueue, tiny: ModelConfig) -> None:
    for text in ("", "x", "-1", "9" * 40, "9" * 5000, "²", str(tiny.pk + 1)):
        assert admin.get(STATE, {"id": text}).json() == {"models": []}
    many = [*range(1000, 1100), tiny.pk]
    assert admin.get(STATE, {"id": many}).json() == {"models": []}  # as many as a page has


def test_only_who_may_see_models(queue: MemoryQueue, viewer: User, tiny: ModelConfig) -> None:
    assert client_of(viewer).get(STATE, {"id": tiny.pk}).status_code == 200
    viewer.user_permissions.clear()
    assert client_of(viewer).get(STATE, {"id": tiny.pk}).status_code == 403


def test_as_many_queries_for_many_models_as_for_one(
    admin: Client, queue: MemoryQueue, tiny: ModelConfig, django_assert_num_queries: Any
) -> None:
    state_of(admin, tiny)
    with CaptureQueriesContext(connection) as asked:
        state_of(admin, tiny)
    others = [
        ModelConfig.objects.create(name=f"m{number}", engine_class="llama", file=tiny.file)
        for number in range(10)
    ]
    ids = [tiny.pk, *(one.pk for one in others)]
    with django_assert_num_queries(len(asked)):
        assert len(admin.get(STATE, {"id": ids}).json()["models"]) == 11
