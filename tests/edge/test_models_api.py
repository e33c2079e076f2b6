"""The list of models: what their files and their engines say, and what is on its way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2 as httpx
import openai
import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from django.core.asgi import get_asgi_application
from django.test import Client

from inference import api
from inference.edge.models.status import status_of
from inference.models import ModelConfig, ModelFile
from inference.protocol.reasons import Other, reason, reason_info
from inference.queues.contract import SUPERVISOR_ID, EngineStatus
from inference.registry.config_services import model_config_add
from inference.registry.selectors import ModelInfo
from llamaweb.accounts.models import AuditEvent, Scope, User
from llamaweb.data_dir import DataDir
from tests.edge.events import answer
from tests.edge.wire import CHAT, HELLO
from tests.factories import UserFactory, make_key
from tests.fakes.inference_api import FakeInference, scripted
from tests.registry.gguf_files import model

pytestmark = pytest.mark.django_db
URL = "https://example.org/x.gguf?token=secret"
INFO = ModelInfo("m", 0, 1, "mock")
HELD = reason("model tiny waits: ", Other("secret"), " is loading")


def engine(state: str, *, age_s: float = 0.1, name: str = "e1", **info: Any) -> EngineStatus:
    return EngineStatus(name, state, 1, 0, age_s, False, info)


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> dict[str, EngineStatus]:
    """Heartbeats by model; set by the test."""
    found: dict[str, EngineStatus] = {}

    async def engine_list(name: str) -> tuple[EngineStatus, ...]:
        return (found[name],) if name in found else ()

    monkeypatch.setattr(api, "engine_list", engine_list)
    return found


@pytest.fixture
def tiny(tmp_path: Path, settings: Any) -> ModelConfig:
    settings.DATA_DIR = DataDir(tmp_path / "data")
    settings.DATA_DIR.models.mkdir(parents=True)
    path = settings.DATA_DIR.models / "tiny.gguf"
    path.write_bytes(model())
    config = model_config_add(name="tiny", path=str(path), load=True)
    ModelConfig.objects.update(aliases=["small"], tags=["fast"])
    return config


@pytest.fixture
def root(db: None) -> User:
    return UserFactory.create(username="root", is_staff=True, is_superuser=True)


def client_of(user: User, *scopes: Scope) -> Client:
    key = make_key(user, scopes=list(scopes or (Scope.INFERENCE,)))
    return Client(headers={"Authorization": f"Bearer {key}"})


def test_what_the_file_and_the_engine_say(
    engines: dict[str, EngineStatus], tiny: ModelConfig, alice: User
) -> None:
    client = client_of(alice)
    (one,) = client.get("/v1/models").json()["data"]
    assert (one["id"], one["aliases"], one["tags"]) == ("tiny", ["small", "default"], ["fast"])
    assert (one["source"], one["can_remove"]) == ("models_dir", False)
    assert (one["status"], one["meta"]["n_ctx"]) == ({"value": "unloaded"}, None)
    file = ModelFile.objects.get()
    assert one["meta"]["size"] == file.size == Path(file.path).stat().st_size
    assert one["meta"]["n_ctx_train"] == file.context_len > 0
    assert one["meta"]["n_vocab"] == file.facts["tokens"]["num"] > 0
    assert one["meta"]["vocab_type"] in (1, 2)

    engines["tiny"] = engine("ready", max_context=512)
    listed = client.get("/models").json()
    (one,), (entry,) = listed["data"], listed["models"]
    assert (one["status"], one["meta"]["n_ctx"]) == ({"value": "loaded"}, 512)
    assert (entry["name"], entry["size"], entry["tags"]) == ("tiny", file.size, ["fast"])
    assert (entry["details"]["format"], entry["details"]["family"]) == ("gguf", "llama")


@pytest.mark.parametrize(
    ("heard", "expected"),
    [
        ((), {"value": "unloaded"}),
        ((engine("ready"),), {"value": "loaded"}),
        ((engine("draining"),), {"value": "loaded"}),
        ((engine("stopped"),), {"value": "unloaded"}),
        ((engine("ready", age_s=60.0),), {"value": "unloaded"}),
        ((engine("loading"), engine("ready", name="e2")), {"value": "loaded"}),
        (
            (engine("loading", load_progress=0.5),),
            {
                "value": "loading",
                "progress": {"stages": ["text_model"], "current": "text_model", "value": 0.5},
            },
        ),
        (
            (engine("starting", reason="it can't be reached"),),
            {"value": "loading", "reason": "it can't be reached"},
        ),
        (
            (engine("starting", name=SUPERVISOR_ID, reason="waits for room"),),
            {"value": "loading", "reason": "waits for room"},
        ),
        (
            (engine("ready"), engine("starting", name=SUPERVISOR_ID)),
            {"value": "loaded"},
        ),
        (
            (engine("stopped", name=SUPERVISOR_ID, reason="no such file"),),
            {"value": "unloaded", "failed": True, "reason": "no such file"},
        ),
        (
            (engine("stopped", name=SUPERVISOR_ID, reason="waits", on_demand=1),),
            {"value": "unloaded", "reason": "waits"},
        ),
        (
            (engine("stopped", name=SUPERVISOR_ID, on_demand=1, **reason_info(HELD)),),
            {"value": "unloaded", "reason": "model tiny waits: another model is loading"},
        ),
    ],
)
def test_states(heard: tuple[EngineStatus, ...], expected: dict[str, Any]) -> None:
    assert status_of(INFO, heard).body() == expected


def test_what_is_on_its_way_only_administrators_see(
    engines: dict[str, EngineStatus], alice: User, root: User
) -> None:
    ModelFile.objects.create(
        is_owned=True, source_url=URL, config_name="far", state="downloading", size=10, bytes_done=4
    )
    ModelFile.objects.create(is_owned=True, source_url=URL, config_name="gone", state="failed")
    for client in (client_of(alice, Scope.ADMIN), client_of(root)):
        assert client.get("/v1/models").json()["data"] == []
    (one,) = client_of(root, Scope.ADMIN).get("/v1/models").json()["data"]
    progress = {"https://example.org/x.gguf": {"done": 4, "total": 10}}
    assert one["id"] == "far"
    assert one["status"] == {"value": "downloading", "progress": progress}


def test_the_directory_is_looked_through_for_who_may(
    engines: dict[str, EngineStatus], tiny: ModelConfig, alice: User, root: User
) -> None:
    folder = Path(ModelFile.objects.get().path).parent
    (folder / "second.gguf").write_bytes(model())
    refused = [
        client_of(alice, Scope.ADMIN).get("/models?reload=1"),
        client_of(root).get("/models?reload=1"),
    ]
    assert [response.status_code for response in refused] == [403, 403]
    assert {r.json()["error"]["type"] for r in refused} == {"permission_error"}
    assert ModelFile.objects.count() == 1
    assert client_of(root, Scope.ADMIN).get("/models?reload=1").status_code == 200
    assert ModelFile.objects.count() == 2
    event = AuditEvent.objects.get(action="model_file.scanned")
    assert (event.actor_name, event.address) == ("root", "127.0.0.1")


def test_staff_need_the_permission_of_the_administration(
    engines: dict[str, EngineStatus], tiny: ModelConfig
) -> None:
    helper = UserFactory.create(username="helper", is_staff=True)
    assert client_of(helper, Scope.ADMIN).get("/models?reload=1").status_code == 403
    helper.user_permissions.add(Permission.objects.get(codename="change_modelfile"))
    assert client_of(helper, Scope.ADMIN).get("/models?reload=1").status_code == 200


def test_autoload_off_refuses_what_is_not_in_memory(
    engines: dict[str, EngineStatus],
    tiny: ModelConfig,
    alice: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeInference(scripted(*answer("Hi")))
    for name in ("generation_submit", "generation_events", "generation_cancel"):
        monkeypatch.setattr(api, name, getattr(fake, name))
    client, body = client_of(alice), {"messages": HELLO, "model": "small"}

    def ask(query: str) -> Any:
        return client.post(CHAT + query, body, content_type="application/json")

    for query in ("?autoload=false", "?autoload=0"):
        refused = ask(query)
        assert refused.status_code == 503
        assert refused.json()["error"]["message"] == "model tiny is not loaded"
    assert fake.submitted == []
    for query in ("", "?autoload=true", "?autoload=1"):
        assert ask(query).status_code == 200
    engines["tiny"] = engine("ready", max_context=512)
    assert ask("?autoload=false").status_code == 200
    assert ask("?autoload=perhaps").json()["error"]["param"] == "autoload"
    assert [request.model for request in fake.submitted] == ["tiny"] * 4


@pytest.mark.django_db(transaction=True)
async def test_the_openai_client(
    engines: dict[str, EngineStatus], tiny: ModelConfig, alice: User
) -> None:
    transport = httpx.ASGITransport(app=get_asgi_application())
    async with httpx.AsyncClient(transport=transport) as http:
        client = openai.AsyncOpenAI(
            api_key=await sync_to_async(make_key)(alice),
            base_url="http://testserver/v1",
            http_client=http,
            max_retries=0,
        )
        assert [one.id async for one in client.models.list()] == ["tiny"]
        assert (await client.models.retrieve("small")).id == "tiny"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("absent")
