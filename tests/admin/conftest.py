"""The administration's visitors, and rows to look at."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.utils import timezone

from conversations.services import conversations
from inference import bus
from inference.models import Generation, ModelConfig, ModelFile
from inference.queues.memory import MemoryQueue
from inference.registry import downloads
from inference.registry.upstreams import upstream_add
from llamaweb.accounts.invite_services import invite_create
from llamaweb.accounts.models import AuditEvent, User
from llamaweb.data_dir import DataDir
from tests.factories import UserFactory, make_key
from tests.registry.hub_source import Hub
from tests.registry.source import Source

HOSTILE = "<script>alert(1)</script>'\"=cmd|x"
MODELS = (
    "accounts.user",
    "auth.group",
    "accounts.apikey",
    "accounts.invite",
    "accounts.sitesettings",
    "accounts.auditevent",
    "mfa.authenticator",
    "usersessions.usersession",
    "inference.modelconfig",
    "inference.modelfile",
    "inference.generation",
    "inference.upstream",
    "conversations.conversation",
)


@pytest.fixture(autouse=True)
def _redis(redis_server: str) -> None:
    """Running."""


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Download jobs that were asked for."""
    found: list[int] = []
    monkeypatch.setattr(downloads, "send", found.append)
    return found


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> MemoryQueue:
    """What engines beat into and requests wait in, for as long as the test."""
    made = MemoryQueue()
    monkeypatch.setattr(bus, "sync_queue", lambda: made)
    return made


@pytest.fixture
def models_dir(tmp_path: Path, settings: Any) -> Path:
    settings.DATA_DIR = DataDir(tmp_path / "data")
    settings.DATA_DIR.models.mkdir(parents=True)
    folder: Path = settings.DATA_DIR.models
    return folder


@pytest.fixture
def hub(settings: Any) -> Iterator[Hub]:
    """A hub of this test's, which may be asked."""
    settings.OUTBOUND_ALLOW = (ipaddress.ip_network("127.0.0.1"),)
    with Source() as source:
        settings.HUB_URL = source.origin
        yield Hub(source)


@pytest.fixture
def root(db: None) -> User:
    return UserFactory.create(username="root", is_staff=True, is_superuser=True)


@pytest.fixture
def viewer(db: None) -> User:
    """Staff who may look at everything and do nothing."""
    user = UserFactory.create(username="viewer", is_staff=True)
    for label in MODELS:
        app, _, model = label.partition(".")
        user.user_permissions.add(
            Permission.objects.get(content_type__app_label=app, codename=f"view_{model}")
        )
    return user


def client_of(user: User | None) -> Client:
    client = Client(REMOTE_ADDR="192.0.2.5")
    if user is not None:
        client.force_login(user)
    return client


def actions() -> list[str]:
    """What root has done, in order."""
    found = AuditEvent.objects.order_by("id")
    assert {event.actor_name for event in found} <= {"root"}
    return [event.action for event in found]


@pytest.fixture
def admin(root: User) -> Client:
    return client_of(root)


@pytest.fixture
def rows(alice: User, models_dir: Path) -> dict[str, Any]:
    """One row of everything, with names that would like to be markup."""
    make_key(alice, name=HOSTILE)
    invite, _ = invite_create(actor=alice, note=HOSTILE)
    file = ModelFile.objects.create(
        source_url="https://example.org/" + HOSTILE,
        title=HOSTILE,
        error=HOSTILE,
        state="failed",
        is_owned=True,
    )
    config = ModelConfig.objects.create(name="tiny", is_default=True, engine_class="mock")
    upstream = upstream_add(name="far", url="https://example.org/v1", remote_model=HOSTILE)
    conversation = conversations.conversation_create(user=alice, title=f"secret title {HOSTILE}")
    Generation.objects.create(
        id="gen-1",
        owner=alice,
        model_name="tiny",
        request="secret prompt",
        parts=[["content", "secret answer"]],
        error_message="secret error",
        state="finished",
        ended_at=timezone.now(),
    )
    return {
        "accounts.user": alice.pk,
        "accounts.apikey": alice.api_keys.get().pk,
        "accounts.invite": invite.pk,
        "accounts.auditevent": 1,
        "inference.modelconfig": config.pk,
        "inference.modelfile": file.pk,
        "inference.generation": "gen-1",
        "inference.upstream": upstream.pk,
        "conversations.conversation": conversation.pk,
    }
