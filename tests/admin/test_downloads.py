"""Downloads in the administration: started, paused, ended; each act written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from inference.models import ModelFile
from tests.admin.conftest import actions
from tests.registry.hub_source import Hub

pytestmark = pytest.mark.django_db
BASE = "/admin/inference/modelconfig/"
FILES = "/admin/inference/modelfile/"


def test_adding_an_address_starts_a_download(
    admin: Client, sent: list[int], django_capture_on_commit_callbacks: Any
) -> None:
    form = {"source": "https://example.org/x.gguf?t=1", "name": "far", "sha256": "A" * 64}
    with django_capture_on_commit_callbacks(execute=True):
        response = admin.post(f"{BASE}add/", form)
    assert response["Location"] == FILES
    file = ModelFile.objects.get()
    assert (file.state, file.config_name, file.expected_sha256) == ("queued", "far", "a" * 64)
    assert sent == [file.pk]
    assert actions() == ["model_file.download_started"]
    page = admin.get(FILES).content.decode()
    assert f'data-download="{file.pk}" data-open' in page
    assert "t=1" not in page
    progress = admin.get(f"{FILES}progress/").json()["files"]
    assert [(row["id"], row["percent"], row["is_open"]) for row in progress] == [(file.pk, 0, True)]


def test_adding_a_model_of_the_hub(
    admin: Client, sent: list[int], hub: Hub, django_capture_on_commit_callbacks: Any
) -> None:
    hub.add(
        **{"t-Q4_K_M-00001-of-00002.gguf": b"a" * 10, "t-Q4_K_M-00002-of-00002.gguf": b"b" * 30}
    )
    page = admin.post(f"{BASE}add/", {"source": f"{hub.repo}:Q2_K", "name": "far"})
    assert "it has Q4_K_M" in page.content.decode()
    form = {"source": f" {hub.repo} ", "name": "far", "load": "on"}
    with django_capture_on_commit_callbacks(execute=True):
        assert admin.post(f"{BASE}add/", form)["Location"] == FILES
    file = ModelFile.objects.get(main=None)
    assert (sent, file.parts.get().role) == ([file.pk], "shard")
    file.parts.update(bytes_done=10)
    (row,) = admin.get(f"{FILES}progress/").json()["files"]
    assert (row["id"], row["percent"]) == (file.pk, 25)
    assert row["text"].replace("\xa0", " ") == "10 bytes / 40 bytes"
    assert str(file) in admin.get(FILES).content.decode()


def test_pause_and_resume_a_download(admin: Client) -> None:
    file = ModelFile.objects.create(is_owned=True, source_url="https://example.org/x.gguf")
    page = f"{FILES}{file.pk}/change/"
    assert "/act/pause/" in admin.get(page).content.decode()
    for name in ("pause", "pause", "resume"):
        said = admin.post(f"{FILES}{file.pk}/act/{name}/", follow=True).content.decode()
        file.refresh_from_db()
        assert (file.state == "paused") == (name == "pause")
        assert ("/act/resume/" in said) == (name == "pause")
    assert actions() == ["model_file.download_paused", "model_file.download_resumed"]


def test_cancel_retry_and_delete_a_download(admin: Client, models_dir: Path) -> None:
    file = ModelFile.objects.create(is_owned=True, source_url="https://example.org/x.gguf")
    base = f"{FILES}{file.pk}/"
    assert admin.post(f"{base}delete/", {"post": "yes"}).status_code == 403
    for name in ("cancel", "retry", "cancel"):
        admin.post(f"{base}act/{name}/")
    admin.post(f"{base}delete/", {"post": "yes"})
    assert actions() == [
        "model_file.download_cancelled",
        "model_file.download_retried",
        "model_file.download_cancelled",
        "model_file.deleted",
    ]
    assert not ModelFile.objects.exists()
