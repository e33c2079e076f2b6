"""The live page's numbers, and what it says when there are none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from inference import bus
from inference.admin import engine_views
from inference.models import ModelConfig
from inference.protocol.requests import GenerateRequest, TextPrompt
from inference.queues.contract import Beat
from inference.queues.memory import MemoryQueue
from inference.registry.config_services import model_config_add
from llamaweb.accounts.models import AuditEvent, User
from llamaweb.lib.errors import UnavailableError
from tests.registry.gguf_files import model

pytestmark = pytest.mark.django_db
STATE = "/admin/engines/state/"


@pytest.fixture
def config(db: None) -> ModelConfig:
    return ModelConfig.objects.create(
        name="tiny", is_default=True, engine_class="mock", wanted="loaded"
    )


def state_of(admin: Client) -> dict[str, Any]:
    response = admin.get(STATE)
    assert response.status_code == 200
    (model,) = response.json()["models"]
    return dict(model)


def submit(queue: MemoryQueue, owner: str, name: str, **values: Any) -> None:
    now = time.time()
    queue.submit(
        GenerateRequest(
            name, "tiny", owner, owner, TextPrompt("x"), 1, now, now + 99, keep=True, **values
        )
    )


def test_an_engine_and_its_queue(
    admin: Client, config: ModelConfig, queue: MemoryQueue, alice: User
) -> None:
    info = {
        "num_slots": 4, "tokens_per_s": 12.5, "prompt_tokens_per_s": 300.0, "prompt_tokens": 75,
        "cached_tokens": 25, "memory_bytes": 2**30, "uptime_s": 61.0, "max_context": 8192, "pid": 7,
    }  # fmt: skip
    queue.beat("tiny", Beat("tiny-abc", "ready", 5, (), info=info))
    submit(queue, f"user:{alice.pk}", "g1")
    submit(queue, f"user:{alice.pk}", "g2", lane="background")
    submit(queue, "key:9", "g3")
    state = state_of(admin)
    assert (state["state"], state["wanted"], state["reason"]) == ("ready", "loaded", "")
    (engine,) = state["engines"]
    assert (engine["tokens_per_s"], engine["memory_bytes"]) == (12.5, 2**30)
    assert (engine["cache_hits"], engine["state"], engine["pid"]) == (25.0, "ready", 7)
    assert (state["queue"]["waiting"], state["queue"]["background"]) == (3, 1)
    owners = [(item["name"], item["count"]) for item in state["queue"]["owners"]]
    assert owners == [("alice", 2), ("key:9", 1)]
    assert [act for act, may in state["may"].items() if may] == [
        "on_demand", "drain", "unload", "restart", "pin",
    ]  # fmt: skip


def test_memory_in_use_stands_beside_what_was_expected(
    admin: Client, queue: MemoryQueue, models_dir: Path
) -> None:
    (models_dir / "tiny.gguf").write_bytes(model())
    model_config_add(name="tiny", path="tiny.gguf")
    queue.beat("tiny", Beat("tiny-abc", "loading", 0, (), info={}))
    assert state_of(admin)["memory"] == ""
    queue.beat("tiny", Beat("tiny-abc", "ready", 0, (), info={"memory_bytes": 70 * 2**20}))
    assert state_of(admin)["memory"].startswith("memory: 70.0\xa0MB in use, 8")
    assert state_of(admin)["memory"].endswith("MB expected")  # up to a full prompt cache


def test_how_far_a_load_is(admin: Client, config: ModelConfig, queue: MemoryQueue) -> None:
    queue.beat("tiny", Beat("tiny-abc", "loading", 0, (), info={"load_progress": 0.25}))
    state = state_of(admin)
    assert (state["state"], state["load_progress"]) == ("loading", 0.25)
    queue.beat("tiny", Beat("tiny-abc", "ready", 0, (), info={}))
    assert state_of(admin)["load_progress"] is None


def test_what_the_supervisor_knows(admin: Client, config: ModelConfig, queue: MemoryQueue) -> None:
    info = {"reason": "no such file: <b>x</b>"}
    queue.beat("tiny", Beat("supervisor", "stopped", info=info))
    state = state_of(admin)
    assert (state["state"], state["engines"]) == ("starting", [])
    assert state["reason"] == "no such file: <b>x</b>"


def test_a_model_that_is_out_and_why(
    admin: Client, config: ModelConfig, queue: MemoryQueue
) -> None:
    ModelConfig.objects.update(wanted="auto", is_pinned=True)
    info = {"reason": "model tiny waits for memory: b is loading", "on_demand": 1}
    queue.beat("tiny", Beat("supervisor", "stopped", info=info))
    state = state_of(admin)
    assert (state["state"], state["is_pinned"]) == ("on_demand", True)
    assert state["reason"] == "model tiny waits for memory: b is loading"
    assert [act for act, may in state["may"].items() if may] == [
        "load", "drain", "unload", "unpin",
    ]  # fmt: skip


def test_the_log_of_a_failed_load_until_one_works(
    admin: Client, config: ModelConfig, queue: MemoryQueue
) -> None:
    queue.beat("tiny", Beat("supervisor", "stopped", info={"reason": "x", "log": "one\n<two>"}))
    assert state_of(admin)["log"] == "one\n<two>"
    queue.beat("tiny", Beat("tiny-abc", "ready"))
    assert state_of(admin)["log"] == ""


def test_no_engine(admin: Client, config: ModelConfig, queue: MemoryQueue) -> None:
    assert state_of(admin)["state"] == "starting"
    ModelConfig.objects.update(wanted="unloaded")
    assert state_of(admin)["state"] == "not_loaded"


def test_redis_away_is_said(
    admin: Client, config: ModelConfig, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_model: str) -> Any:
        raise UnavailableError("Redis can't be reached")

    monkeypatch.setattr(queue, "engines", away)
    answer = admin.get(STATE).json()
    assert answer["error"] == "Redis can't be reached"
    assert answer["models"][0]["queue"] is None
    assert admin.get("/admin/engines/").status_code == 200


def test_redis_really_away(admin: Client, config: ModelConfig, settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    bus.sync_queue.cache_clear()
    try:
        assert admin.get(STATE).json()["error"]
    finally:
        bus.sync_queue.cache_clear()


def test_the_database_away_is_said(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise DatabaseError("no connection: secret-host")

    monkeypatch.setattr(engine_views, "engines_state", away)
    response = admin.get(STATE)
    assert response.status_code == 200
    assert "secret-host" not in response.content.decode()
    assert response.json()["error"]


def test_the_buttons(admin: Client, config: ModelConfig) -> None:
    for act, wanted in (
        ("unload", "unloaded"),
        ("load", "loaded"),
        ("on_demand", "auto"),
        ("drain", "drained"),
    ):
        answer = admin.post(f"/admin/engines/{config.pk}/{act}/")
        assert (answer.status_code, "message" in answer.json()) == (200, True)
        config.refresh_from_db()
        assert config.wanted == wanted
    assert AuditEvent.objects.filter(actor_name="root", address="192.0.2.5").count() == 4
    ModelConfig.objects.update(is_enabled=False, wanted="unloaded")
    refused = admin.post(f"/admin/engines/{config.pk}/load/")
    assert (refused.status_code, "enable it first" in refused.json()["error"]) == (400, True)
    assert admin.post("/admin/engines/999/load/").status_code == 404
    assert admin.post(f"/admin/engines/{config.pk}/default/").status_code == 404
