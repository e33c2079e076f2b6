"""The page that uploads a model, and what its script talks to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from inference.models import ModelFile
from inference.registry import uploads
from llamaweb.accounts.models import AuditEvent, User
from tests.admin.conftest import client_of
from tests.registry.gguf_files import model

pytestmark = pytest.mark.django_db
PAGE = "/admin/inference/modelfile/upload/"
BODY = model()
FORM = {"file_name": "tiny.gguf", "size": len(BODY), "name": "tiny", "load": "on"}


def piece(admin: Client, pk: int, offset: int, data: bytes) -> Any:
    form = {"offset": offset, "piece": SimpleUploadedFile("piece", data)}
    return admin.post(f"{PAGE}{pk}/", form)


def test_a_file_is_taken_piece_by_piece(
    admin: Client,
    models_dir: Path,
    sent: list[int],
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    monkeypatch.setattr(uploads, "PIECE_BYTES", 3000)
    page = admin.get(PAGE).content.decode()
    assert f'data-start-url="{PAGE}start/"' in page
    assert f'data-piece-url="{PAGE}0/"' in page
    state = admin.post(f"{PAGE}start/", FORM).json()
    assert (state["done"], state["piece"], state["is_open"]) == (0, 3000, True)
    assert piece(admin, state["id"], 0, BODY).status_code == 400  # too large
    with django_capture_on_commit_callbacks(execute=True):
        while state["is_open"]:
            data = BODY[state["done"] :][: state["piece"]]
            state = piece(admin, state["id"], state["done"], data).json()
    file = ModelFile.objects.get()
    assert (file.state, file.bytes_done, sent) == ("queued", len(BODY), [file.pk])
    (event,) = AuditEvent.objects.all()
    assert (event.action, event.actor_name) == ("model_file.upload_started", "root")
    files = admin.get("/admin/inference/modelfile/").content.decode()
    assert f'href="{PAGE}"' in files


def test_what_is_refused_says_why(admin: Client, models_dir: Path) -> None:
    for changes, reason in [
        ({"name": "default"}, "reserved"),
        ({"file_name": "x.zip"}, "GGUF"),
        ({"size": ""}, "size"),
        ({"size": 2**60}, "LLAMAWEB_DOWNLOAD_MAX_BYTES"),
    ]:
        answer = admin.post(f"{PAGE}start/", FORM | changes)
        assert answer.status_code == 400
        assert reason in answer.json()["error"]
    assert piece(admin, 7, 0, b"GGUF").status_code == 404
    assert admin.post(f"{PAGE}7/", {"offset": 0}).status_code == 400
    assert admin.get(f"{PAGE}start/").status_code == 405
    assert not ModelFile.objects.exists()


def test_only_those_who_may_add_models(viewer: User, alice: User, models_dir: Path) -> None:
    for user in (viewer, alice, None):
        client = client_of(user)
        expected = 403 if user is viewer else 302
        assert client.get(PAGE).status_code == expected
        assert client.post(f"{PAGE}start/", FORM).status_code == expected
        assert piece(client, 1, 0, b"GGUF").status_code == expected
    assert PAGE not in client_of(viewer).get("/admin/inference/modelfile/").content.decode()
    assert not ModelFile.objects.exists()
