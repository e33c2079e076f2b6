"""GET /models/sse: what happens to models, told in order to whoever listens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from django.utils import timezone

from inference import api
from inference.edge.models import watch
from inference.edge.models.events import Look, events_between
from inference.edge.models.status import ModelStatus
from inference.models import ModelConfig, ModelFile
from inference.queues.contract import EngineStatus
from inference.registry.config_services import model_config_delete
from inference.registry.model_cards import Download
from llamaweb.accounts.models import ApiKey, AuditEvent, Scope, User
from llamaweb.accounts.services import api_key_revoke
from llamaweb.lib.errors import UnavailableError
from tests.factories import UserFactory, make_key
from tests.until import until

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 20.0
URL = "https://example.org/x.gguf"


class Stream:
    """An open response, read event by event."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self._chunks: AsyncIterator[bytes] = aiter(response.streaming_content)

    async def next(self) -> dict[str, Any] | None:
        """The next event; None at the end."""
        async with asyncio.timeout(WAIT_S):
            async for chunk in self._chunks:
                if chunk.startswith(b"data: "):
                    event: dict[str, Any] = json.loads(chunk.removeprefix(b"data: "))
                    return event
        return None


Open = Callable[..., Any]


@pytest.fixture
def root(transactional_db: None) -> User:
    return UserFactory.create(username="root", is_staff=True, is_superuser=True)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> dict[str, EngineStatus]:
    """Heartbeats by model; set by the test."""
    found: dict[str, EngineStatus] = {}

    async def engine_list(name: str) -> tuple[EngineStatus, ...]:
        return (found[name],) if name in found else ()

    monkeypatch.setattr(api, "engine_list", engine_list)
    return found


@pytest_asyncio.fixture
async def listen(root: User, engines: dict[str, EngineStatus]) -> AsyncIterator[Open]:
    """Opens streams, of root's key where none is given; all are closed at the end, and the looks
    have ended."""
    made: list[Stream] = []
    admins = await sync_to_async(make_key)(root, scopes=[Scope.ADMIN])

    async def connect(key: str = admins) -> Any:
        response = await AsyncClient().get(
            "/models/sse", headers={"Authorization": f"Bearer {key}"}
        )
        if response.status_code != 200:
            return response
        assert response["Content-Type"] == "text/event-stream"
        made.append(Stream(response))
        return made[-1]

    yield connect
    for stream in made:
        await sync_to_async(stream.response.close)()
    await until(lambda: not watch.watch_here().is_running)
    await sync_to_async(connections.close_all)()


def engine(state: str, **info: Any) -> EngineStatus:
    return EngineStatus("e1", state, 1, 0, 0.1, False, info)


async def test_a_model_is_loaded_and_unloaded(
    listen: Open, engines: dict[str, EngineStatus]
) -> None:
    await ModelConfig.objects.acreate(name="m", engine_class="mock")
    one, two = await listen(), await listen()
    told = []
    for heard in (engine("loading"), engine("loading", load_progress=0.5), engine("ready"), None):
        engines.pop("m") if heard is None else engines.update(m=heard)
        events = [await one.next(), await two.next()]
        assert events[0] == events[1]
        told.append((events[0]["model"], events[0]["event"], events[0]["data"]["status"]))
    assert told == [
        ("m", "model_status", "loading"),
        ("m", "status_change", "loading"),
        ("m", "status_change", "loaded"),
        ("m", "status_change", "unloaded"),
    ]


async def test_a_download_and_a_model_that_goes(listen: Open, root: User) -> None:
    config = await ModelConfig.objects.acreate(
        name="m", engine_class="mock", wanted="unloaded", is_default=False
    )
    stream = await listen()
    file = await ModelFile.objects.acreate(
        is_owned=True, source_url=f"{URL}?token=secret", config_name="far", state="queued"
    )
    first = await stream.next()
    assert first == {
        "model": "far",
        "event": "download_progress",
        "data": {"progress": {URL: {"done": 0, "total": 0}}},
    }
    rows = ModelFile.objects.filter(pk=file.pk)
    await rows.aupdate(state="downloading", size=10, bytes_done=4)
    second = await stream.next()
    assert second["data"] == {"progress": {URL: {"done": 4, "total": 10}}}
    await rows.aupdate(state="ready", bytes_done=10)
    assert await stream.next() == {"model": "far", "event": "download_finished"}
    await sync_to_async(model_config_delete)(config=config, actor=root)
    assert await stream.next() == {"model": "m", "event": "model_remove"}


async def test_a_scan_is_told(listen: Open, root: User) -> None:
    def scanned(action: str) -> None:
        AuditEvent.objects.create(at=timezone.now(), action=action, object_type="", object_id="")

    await sync_to_async(scanned)("model_file.scanned")  # before
    stream = await listen()
    await sync_to_async(scanned)("model_config.load")
    await sync_to_async(scanned)("model_file.scanned")
    assert await stream.next() == {"model": "*", "event": "models_reload"}


async def test_a_revoked_key_ends_its_stream(listen: Open, root: User) -> None:
    stream = await listen()
    await sync_to_async(lambda: api_key_revoke(key=ApiKey.objects.get()))()
    assert (await stream.next())["error"]["code"] == 401
    assert await stream.next() is None


async def test_who_loses_the_right_is_told_nothing_more(listen: Open, root: User) -> None:
    stream = await listen()
    await User.objects.filter(pk=root.pk).aupdate(is_superuser=False)
    assert (await stream.next())["error"]["code"] == 401


@pytest_asyncio.fixture
async def models(transactional_db: None) -> None:
    """One for everybody, one for alice only when that is said."""
    await ModelConfig.objects.acreate(name="open", engine_class="mock")
    await ModelConfig.objects.acreate(name="secret", engine_class="mock", is_restricted=True)


LOADED = {"event": "status_change", "data": {"status": "loaded"}}


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("only", [(), ("open", "secret")])
async def test_others_hear_of_the_models_of_their_list(
    listen: Open, engines: dict[str, EngineStatus], alice: User, only: tuple[str, ...]
) -> None:
    key = await sync_to_async(make_key)(alice, model_names=only)
    alices, roots = await listen(key), await listen()
    await ModelFile.objects.acreate(source_url=URL, is_owned=True, config_name="far")
    assert (await roots.next())["event"] == "download_progress"
    engines["secret"] = engine("ready")
    assert await roots.next() == {"model": "secret"} | LOADED
    engines["open"] = engine("ready")
    assert await alices.next() == await roots.next() == {"model": "open"} | LOADED


async def test_a_key_that_only_administers_follows_and_looks_again(
    listen: Open, engines: dict[str, EngineStatus], root: User
) -> None:
    await ModelConfig.objects.acreate(name="m", engine_class="mock")
    key = await sync_to_async(make_key)(root, scopes=[Scope.MODELS_WRITE])
    stream = await listen(key)
    engines["m"] = engine("ready")
    assert await stream.next() == {"model": "m"} | LOADED
    response = await AsyncClient().get(
        "/models?reload=1", headers={"Authorization": f"Bearer {key}"}
    )
    assert response.status_code == 200
    assert await stream.next() == {"model": "*", "event": "models_reload"}


@pytest.mark.usefixtures("models")
async def test_a_key_for_certain_models_hears_of_these(
    listen: Open, engines: dict[str, EngineStatus], root: User
) -> None:
    key = await sync_to_async(make_key)(root, scopes=[Scope.ADMIN], model_names=["secret"])
    stream, other = await listen(key), await listen()
    engines["open"] = engine("ready")
    assert (await other.next())["model"] == "open"
    engines["secret"] = engine("ready")
    assert await stream.next() == {"model": "secret"} | LOADED


@pytest.mark.usefixtures("models")
async def test_what_comes_into_sight_and_goes_out_of_it(
    listen: Open, engines: dict[str, EngineStatus], alice: User
) -> None:
    engines["secret"] = engine("ready")
    stream = await listen(await sync_to_async(make_key)(alice))
    secret = await ModelConfig.objects.aget(name="secret")
    await secret.users.aadd(alice)
    assert await stream.next() == {"model": "secret"} | LOADED
    await secret.users.aremove(alice)
    assert await stream.next() == {"model": "secret", "event": "model_remove"}
    await User.objects.filter(pk=alice.pk).aupdate(is_active=False)
    assert (await stream.next())["error"]["code"] == 401


async def test_nobody_takes_all_places(
    listen: Open, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MAX_OF_USER", 1)
    key = await sync_to_async(make_key)(alice)
    await listen(key)
    refused = await listen(key)
    assert refused.status_code == 429
    assert "1 clients of this user follow" in refused.json()["error"]["message"]
    assert isinstance(await listen(), Stream)


async def test_listeners_are_bounded(listen: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MAX_LISTENERS", 1)
    await listen()
    refused = await listen()
    assert refused.status_code == 429
    assert refused.json()["error"]["reason"] == "listeners"


async def test_a_look_that_fails_is_made_up_for(
    listen: Open, engines: dict[str, EngineStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    await ModelConfig.objects.acreate(name="m", engine_class="mock")
    stream = await listen()
    works, num_failed = api.engine_list, 0

    async def away(_model: str) -> tuple[EngineStatus, ...]:
        nonlocal num_failed
        num_failed += 1
        raise UnavailableError("Redis can't be reached")

    monkeypatch.setattr(api, "engine_list", away)
    engines["m"] = engine("ready")
    await until(lambda: num_failed >= 2)
    monkeypatch.setattr(api, "engine_list", works)
    assert (await stream.next())["data"] == {"status": "loaded"}


async def test_without_redis_nobody_listens(listen: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(_model: str) -> tuple[EngineStatus, ...]:
        raise UnavailableError("Redis can't be reached")

    await ModelConfig.objects.acreate(name="m", engine_class="mock")
    monkeypatch.setattr(api, "engine_list", away)
    monkeypatch.setattr(watch, "FIRST_LOOK_S", 0.5)
    refused = await listen()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, 503)


def test_how_downloads_end() -> None:
    coming = Download(1, "far", timezone.now(), {URL: (1, 2)})
    before = Look({}, {1: coming})
    for state, event in (
        ("ready", "download_finished"),
        ("failed", "download_failed"),
        ("cancelled", "model_remove"),
        ("", "model_remove"),
    ):
        now = Look({}, {}, {1: state} if state else {})
        assert list(events_between(before, now)) == [{"model": "far", "event": event}]
    moved = Look({}, {1: replace(coming, files={URL: (2, 2)})})
    assert [e["event"] for e in events_between(before, moved)] == ["download_progress"]
    assert list(events_between(before, before)) == []


def test_a_failure_is_told_with_its_reason() -> None:
    before = Look({"m": ModelStatus("loading")})
    now = Look({"m": ModelStatus("unloaded", failed=True, reason="no memory")})
    (event,) = events_between(before, now)
    assert event["data"] == {"status": "unloaded", "failed": True, "reason": "no memory"}


def test_a_listener_that_does_not_read_is_ended() -> None:
    listener = watch.Listener(caller=None, sight=None)  # type: ignore[arg-type]
    for number in range(watch.MAX_WAITING + 5):
        listener.tell({"model": str(number), "event": "status_change"})
    assert listener.items.qsize() == watch.MAX_WAITING + 1
    items = [listener.items.get_nowait() for _ in range(watch.MAX_WAITING + 1)]
    assert isinstance(items[-1], Exception)
