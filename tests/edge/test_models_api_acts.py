"""Loading, unloading, fetching and removing models with an administrator's key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from inference.edge.models import acts
from inference.models import ModelConfig, ModelFile
from inference.registry import downloads
from inference.registry.hub import HubModel
from inference.registry.hub_choice import HubFile
from llamaweb.accounts.models import AuditEvent, Scope, User
from llamaweb.data_dir import DataDir
from llamaweb.lib.errors import InvalidError
from tests.factories import UserFactory, make_key

pytestmark = pytest.mark.django_db
ACTS = [
    ("POST", "/models/load", {"model": "first"}),
    ("POST", "/models/unload", {"model": "first"}),
    ("POST", "/models", {"model": "user/repo:Q8_0"}),
    ("DELETE", "/models?model=first", None),
    ("GET", "/models?reload=1", None),
]


@pytest.fixture
def root(db: None) -> User:
    return UserFactory.create(username="root", is_staff=True, is_superuser=True)


@pytest.fixture
def first(db: None) -> ModelConfig:
    return ModelConfig.objects.create(
        name="first", aliases=["one"], engine_class="mock", wanted="unloaded", is_restricted=True
    )


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Download jobs that were asked for."""
    found: list[int] = []
    monkeypatch.setattr(downloads, "send", found.append)
    return found


@pytest.fixture
def fetched(tmp_path: Path, settings: Any) -> ModelConfig:
    """A model that was downloaded, with its file; not loaded."""
    settings.DATA_DIR = DataDir(tmp_path / "data")
    settings.DATA_DIR.models.mkdir(parents=True)
    path = settings.DATA_DIR.models / "far.gguf"
    path.write_bytes(b"GGUF")
    file = ModelFile.objects.create(path=str(path), is_owned=True, state="ready")
    return ModelConfig.objects.create(name="far", file=file, wanted="unloaded")


def ask(user: User, method: str, path: str, body: Any = None, *, scope: Scope = Scope.ADMIN) -> Any:
    client = Client(headers={"Authorization": f"Bearer {make_key(user, scopes=[scope])}"})
    data = b"" if body is None else json.dumps(body).encode()
    return client.generic(method, path, data, content_type="application/json")


def error_of(response: Any) -> tuple[int, str]:
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (error["code"], response.status_code)
    return response.status_code, error["message"]


def events() -> list[tuple[str, str, str | None]]:
    rows = AuditEvent.objects.filter(action__startswith="model_").order_by("id")
    return [(event.action, event.actor_name, event.address) for event in rows]


@pytest.mark.parametrize("prefix", ["", "/v1"])
def test_load_and_unload_by_name_and_alias(root: User, first: ModelConfig, prefix: str) -> None:
    def go(act: str, name: str) -> Any:
        return ask(root, "POST", f"{prefix}/models/{act}", {"model": name})

    assert error_of(go("unload", "first")) == (400, "model is not running")
    loaded = go("load", "one")
    assert (loaded.status_code, loaded.json()) == (200, {"success": True})
    first.refresh_from_db()
    assert first.wanted == "loaded"
    assert error_of(go("load", "first")) == (400, "model is already running")
    assert go("unload", "first").json() == {"success": True}
    first.refresh_from_db()
    assert first.wanted == "unloaded"
    assert events() == [
        ("model_config.load", "root", "127.0.0.1"),
        ("model_config.unload", "root", "127.0.0.1"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/models/load", {"model": "absent"}, 404, acts.ABSENT),
        ("POST", "/models/unload", {"model": "absent"}, 400, acts.ABSENT),
        ("DELETE", "/models?model=absent", None, 404, acts.ABSENT),
        ("POST", "/models/load", {}, 400, "model name is missing from the request"),
        ("POST", "/models/load", {"model": ""}, 400, "model name is missing from the request"),
        ("DELETE", "/models", None, 400, "model name is missing from the request"),
        ("POST", "/models/load", {"model": 7}, 400, "model"),
        ("POST", "/models/load", {"model": "x" * 600}, 400, "model"),
        ("POST", "/models", {"model": "no reference"}, 400, "user/repository:QUANT"),
        ("DELETE", "/models?model=first", None, 400, "wasn't downloaded by this server"),
    ],
)
def test_mistakes(
    root: User,
    first: ModelConfig,
    method: str,
    path: str,
    body: Any,
    status: int,
    message: str,
) -> None:
    found = error_of(ask(root, method, path, body))
    assert found[0] == status
    assert message in found[1]
    assert events() == []


@pytest.mark.parametrize(("method", "path", "body"), ACTS)
def test_only_who_may_administer_models(
    alice: User, root: User, first: ModelConfig, method: str, path: str, body: Any
) -> None:
    helper = UserFactory.create(username="helper", is_staff=True)
    former = UserFactory.create(username="former")
    every = Permission.objects.filter(content_type__app_label="inference")
    former.user_permissions.set(every)  # no member of staff any more
    for user, scope in (
        (alice, Scope.ADMIN),
        (helper, Scope.ADMIN),
        (former, Scope.ADMIN),
        (root, Scope.INFERENCE),
        (root, Scope.MODELS_READ),
    ):
        response = ask(user, method, path, body, scope=scope)
        assert response.status_code == 403, (user, scope)
        assert response.json()["error"]["type"] == "permission_error"
    assert Client().generic(method, path).status_code == 401
    first.refresh_from_db()
    assert first.wanted == "unloaded"
    assert events() == []


def test_staff_with_the_permission_may(first: ModelConfig) -> None:
    helper = UserFactory.create(username="helper", is_staff=True)
    helper.user_permissions.add(Permission.objects.get(codename="change_modelconfig"))
    assert ask(helper, "POST", "/models/load", {"model": "first"}).status_code == 200
    assert ask(helper, "DELETE", "/models?model=first").status_code == 403


def test_what_was_downloaded_is_removed_with_its_file(
    root: User, fetched: ModelConfig, django_capture_on_commit_callbacks: Any
) -> None:
    assert fetched.file is not None
    path = Path(fetched.file.path)
    with django_capture_on_commit_callbacks(execute=True):
        assert ask(root, "DELETE", "/models?model=far").json() == {"success": True}
    assert not ModelConfig.objects.exists()
    assert not ModelFile.objects.exists()
    assert not path.exists()
    assert [act for act, _, _ in events()] == ["model_config.deleted", "model_file.deleted"]


def test_what_is_loaded_stays(root: User, fetched: ModelConfig) -> None:
    ModelConfig.objects.update(wanted="loaded")
    status, message = error_of(ask(root, "DELETE", "/models?model=far"))
    assert (status, message) == (400, "far is loaded; unload it first")
    assert ModelFile.objects.exists()


def test_a_file_that_two_use_stays(root: User, fetched: ModelConfig) -> None:
    ModelConfig.objects.create(name="twin", file=fetched.file, wanted="unloaded")
    assert ask(root, "DELETE", "/models?model=far").status_code == 200
    assert ModelConfig.objects.get().name == "twin"
    assert ModelFile.objects.exists()


def test_fetching_from_the_hub_and_cancelling(
    root: User, sent: list[int], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    file = HubFile("m-Q8_0.gguf", 10, "a" * 64)
    found = HubModel("user/repo", "Q8_0", "b" * 40, (file,), None)

    def hub_model(reference: str) -> HubModel:
        if reference != "user/repo":
            raise InvalidError("there is no such repository", param="source")
        return found

    monkeypatch.setattr(acts, "hub_model", hub_model)
    absent = ask(root, "POST", "/models", {"model": "user/absent"})
    assert error_of(absent) == (400, "model: there is no such repository")
    assert ask(root, "POST", "/models", {"model": "user/repo"}).json() == {"success": True}
    row = ModelFile.objects.get()
    assert (row.config_name, row.state, row.created_by) == ("user/repo:Q8_0", "queued", root)
    again = error_of(ask(root, "POST", "/models", {"model": "user/repo"}))
    assert again[0] == 400
    (coming,) = ask(root, "GET", "/models").json()["data"]
    assert (coming["id"], coming["status"]["value"]) == ("user/repo:Q8_0", "downloading")

    assert ask(root, "DELETE", "/models?model=user/repo:Q8_0").json() == {"success": True}
    row.refresh_from_db()
    assert row.state == "cancelled"
    assert ask(root, "GET", "/models").json()["data"] == []
    actions = [act for act, _, _ in events()]
    assert actions == ["model_file.download_started", "model_file.download_cancelled"]
