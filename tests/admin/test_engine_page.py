"""The live page of one model: slots, caches, log, and its buttons."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client

from inference import bus
from inference.admin import engine_views
from inference.models import ModelConfig
from inference.protocol.slot_uses import SlotUse, encode_slot_uses
from inference.queues.contract import Beat
from inference.queues.memory import MemoryQueue
from llamaweb.accounts.models import AuditEvent, User
from llamaweb.lib.clock import ManualClock
from llamaweb.lib.errors import UnavailableError
from tests.admin.conftest import HOSTILE, client_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def config(db: None) -> ModelConfig:
    return ModelConfig.objects.create(name="tiny", engine_class="mock", wanted="loaded")


def url(config: ModelConfig, *rest: str) -> str:
    return "/".join(["/admin/engines", str(config.pk), *rest, ""])


def model_of(admin: Client, config: ModelConfig) -> dict[str, Any]:
    response = admin.get(url(config, "state"))
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    return dict(response.json()["model"])


def ready(queue: MemoryQueue, **info: Any) -> None:
    info = {"num_slots": 3, "max_context": 2048} | info
    queue.beat("tiny", Beat("tiny-abc", "ready", 5, (), info=info))


def test_slots_say_who_and_how_far(
    admin: Client, config: ModelConfig, queue: MemoryQueue, alice: User
) -> None:
    uses = [
        SlotUse("decode", f"user:{alice.pk}", 90, 30, 90, 12),
        SlotUse("prefill", "key:9", 50, 0, 20),
    ]
    ready(queue, slots=encode_slot_uses(uses))
    (engine,) = model_of(admin, config)["details"]
    taken = {"state": "decode", "owner": f"user:{alice.pk}", "name": "alice"}
    counts = {"prompt": 90, "cached": 30, "generated": 12, "context": 102}
    assert engine["slots"][0] == taken | counts
    assert (engine["slots"][1]["name"], engine["slots"][1]["context"]) == ("key:9", 20)
    assert engine["slots"][2:] == [{"state": "free", "owner": ""}]


def test_a_silent_engine_has_no_slots_in_use(
    admin: Client, config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock=clock)
    monkeypatch.setattr(bus, "sync_queue", lambda: queue)
    ready(queue, slots=encode_slot_uses([SlotUse("decode", "user:1")]))
    clock.advance(10)
    model = model_of(admin, config)
    assert [engine["state"] for engine in model["engines"]] == ["silent"]
    assert {slot["state"] for slot in model["details"][0]["slots"]} == {"free"}


def test_hits_and_bytes_of_each_cache(
    admin: Client, config: ModelConfig, queue: MemoryQueue
) -> None:
    ready(
        queue, threads=3, cache_slot_hit_tokens=10, cache_copy_hit_tokens=5,
        cache_host_hit_tokens=20, cache_missed_tokens=65, cache_slot_tokens=7, cache_slot_bytes=700,
        cache_host_entries=2, cache_host_bytes=2**20, cache_host_budget_bytes=2**30,
    )  # fmt: skip
    (engine,) = model_of(admin, config)["details"]
    assert engine["threads"] == 3
    assert engine["cache"] == {
        "slot_hits": 10, "copy_hits": 5, "host_hits": 20, "missed": 65, "slot_tokens": 7,
        "slot_bytes": 700, "host_entries": 2, "host_bytes": 2**20, "host_budget_bytes": 2**30,
    }  # fmt: skip


def test_what_computes_elsewhere_has_no_cache(
    admin: Client, config: ModelConfig, queue: MemoryQueue
) -> None:
    ready(queue)
    assert model_of(admin, config)["details"][0]["cache"] is None


def test_the_log_of_a_living_engine(admin: Client, config: ModelConfig, queue: MemoryQueue) -> None:
    queue.beat("tiny", Beat("supervisor", "starting", info={"tail": "one\n<two>", "log": ""}))
    ready(queue)
    model = model_of(admin, config)
    assert (model["tail"], model["log"]) == ("one\n<two>", "")
    queue.beat("tiny", Beat("supervisor", "starting", info={"tail": "x" * 99_999}))
    assert len(model_of(admin, config)["tail"]) == 8000


def test_nonsense_in_a_heartbeat_harms_nobody(
    admin: Client, config: ModelConfig, queue: MemoryQueue
) -> None:
    ready(queue, slots=HOSTILE, num_slots="many", cache_missed_tokens="x", threads="y")
    (engine,) = model_of(admin, config)["details"]
    assert (engine["slots"], engine["threads"], engine["cache"]["missed"]) == ([], 0, 0)


def test_redis_or_the_database_away_is_said(
    admin: Client, config: ModelConfig, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_argument: Any) -> Any:
        raise UnavailableError("Redis can't be reached")

    monkeypatch.setattr(queue, "engines", away)
    answer = admin.get(url(config, "state")).json()
    assert (answer["error"], answer["model"]["queue"]) == ("Redis can't be reached", None)
    assert admin.get(url(config)).status_code == 200

    def broken(_config: Any) -> Any:
        raise DatabaseError("secret-host")

    monkeypatch.setattr(engine_views, "engine_details", broken)
    response = admin.get(url(config, "state"))
    assert (response.status_code, response.json()["model"]) == (200, None)
    assert "secret-host" not in response.content.decode()


def test_restart_and_pin(admin: Client, config: ModelConfig, queue: MemoryQueue) -> None:
    assert model_of(admin, config)["may"]["restart"] is False
    ready(queue)
    assert model_of(admin, config)["may"]["restart"] is True
    before = config.updated_at
    answer = admin.post(url(config, "restart")).json()
    assert "answers get a minute to end" in answer["message"]
    config.refresh_from_db()
    assert config.restart_at is not None
    assert config.updated_at == before
    for act in ("pin", "unpin"):
        assert admin.post(url(config, act)).status_code == 200
        config.refresh_from_db()
        assert config.is_pinned is (act == "pin")
        assert model_of(admin, config)["may"]["unpin"] is config.is_pinned
    actions = [event.action for event in AuditEvent.objects.order_by("id")]
    assert actions == ["model_config.restart", "model_config.pin", "model_config.unpin"]
    ModelConfig.objects.update(wanted="unloaded")
    refused = admin.post(url(config, "restart"))
    assert (refused.status_code, refused.json()["error"]) == (
        400,
        "tiny isn't to be loaded; load it instead",
    )


def test_who_may_look_and_who_may_act(
    viewer: User, alice: User, config: ModelConfig, queue: MemoryQueue
) -> None:
    page = client_of(viewer).get(url(config))
    assert page.status_code == 200
    assert "data-act=" not in page.content.decode()
    assert client_of(viewer).get(url(config, "state")).status_code == 200
    for act in ("restart", "pin", "unpin", "load"):
        assert client_of(viewer).post(url(config, act)).status_code == 403
    for user in (alice, None):
        for rest in ((), ("state",)):
            assert client_of(user).get(url(config, *rest)).status_code in (302, 403)
    assert not AuditEvent.objects.exists()


def test_a_model_that_is_gone(admin: Client, config: ModelConfig) -> None:
    pk = config.pk
    config.delete()
    assert admin.get(f"/admin/engines/{pk}/").status_code == 404
    assert admin.get(f"/admin/engines/{pk}/state/").status_code == 404


def test_the_page_has_every_button(admin: Client, config: ModelConfig) -> None:
    page = admin.get(url(config)).content.decode()
    for act in ("load", "on_demand", "pin", "unpin", "restart", "drain", "unload"):
        assert f'data-act="{act}"' in page
    assert f'href="/admin/inference/modelconfig/{config.pk}/change/"' in page
