"""Uploads: piece by piece, by one person, to the same end as a download."""

from __future__ import annotations

import errno
import hashlib
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from inference.models import ModelConfig, ModelFile
from inference.registry import uploads
from inference.registry.download_job import model_download
from inference.registry.downloads import model_download_cancel, model_download_retry
from inference.registry.files import partial_path
from inference.registry.uploads import ABANDONED, upload_start, upload_sweep, upload_write
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.errors import BusyError, FailedError, InvalidError, NotFoundError
from tests.factories import UserFactory
from tests.registry.downloading import fresh, left_over
from tests.registry.gguf_files import model

pytestmark = pytest.mark.django_db(transaction=True)
BODY = model(num_values=2000)
PIECE = 1000


@pytest.fixture(autouse=True)
def _folder(downloading: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A models directory of the test's; small pieces."""
    monkeypatch.setattr(uploads, "PIECE_BYTES", PIECE)


def start(alice: Any, **values: Any) -> ModelFile:
    wanted = {"file_name": "My Tiny.gguf", "size": len(BODY), "name": "tiny", "actor": alice}
    return upload_start(**wanted | values)


def send(file: ModelFile, alice: Any, body: bytes = BODY, *, num: int = 10**6) -> ModelFile:
    """The next `num` pieces."""
    row = fresh(file)
    while row.state == "uploading" and num:
        num -= 1
        data = body[row.bytes_done :][:PIECE]
        row = upload_write(file_id=file.pk, offset=row.bytes_done, data=data, actor=alice)
    return row


def test_a_file_becomes_a_model(downloading: Path, alice: Any, sent: list[int]) -> None:
    file = start(alice, sha256=hashlib.sha256(BODY).hexdigest().upper(), load=True)
    assert send(file, alice, num=3).bytes_done == 3 * PIECE
    assert sent == []
    assert send(file, alice).state == "queued"
    assert sent == [file.pk]
    assert model_download(file.pk) == "ready"
    row = fresh(file)
    assert Path(row.path).name == f"My-Tiny-{file.pk}.gguf"
    assert Path(row.path).read_bytes() == BODY
    config = ModelConfig.objects.get()
    assert (config.name, config.file_id, config.wanted) == ("tiny", row.pk, "loaded")
    actions = list(AuditEvent.objects.order_by("id").values_list("action", "actor_name"))
    assert actions[:2] == [
        ("model_file.upload_started", "alice"),
        ("model_file.upload_ended", ""),
    ]
    assert left_over(downloading) == [Path(row.path).name]


def test_it_goes_on_where_it_broke_off(alice: Any) -> None:
    file = start(alice)
    send(file, alice, num=2)
    with partial_path(file.pk).open("ab") as stream:
        stream.write(b"half of a piece")  # that nobody counted
    again = start(alice)
    assert (again.pk, again.bytes_done) == (file.pk, 2 * PIECE)
    send(file, alice)
    assert model_download(file.pk) == "ready"
    assert Path(fresh(file).path).read_bytes() == BODY


def test_a_piece_that_comes_twice_or_too_early_changes_nothing(alice: Any) -> None:
    file = start(alice)
    send(file, alice, num=2)
    for offset in (0, PIECE, 5 * PIECE):
        row = upload_write(file_id=file.pk, offset=offset, data=b"?" * PIECE, actor=alice)
        assert (row.bytes_done, row.state) == (2 * PIECE, "uploading")
    send(file, alice)
    assert model_download(file.pk) == "ready"


def test_two_writers_at_once(alice: Any) -> None:
    file = start(alice)
    with uploads._locked(file.pk), pytest.raises(BusyError):
        send(file, alice)


def test_what_is_no_model_ends_with_its_first_piece(downloading: Path, alice: Any) -> None:
    file = start(alice)
    with pytest.raises(InvalidError, match="not a GGUF file"):
        send(file, alice, b"<!doctype html>" * 1000)
    assert fresh(file).state == "cancelled"
    assert left_over(downloading) == []


def test_a_damaged_file_is_thrown_away(downloading: Path, alice: Any) -> None:
    file = start(alice, sha256="0" * 64)
    send(file, alice)
    assert model_download(file.pk) == "failed"
    assert "another SHA-256" in fresh(file).error
    assert left_over(downloading) == []
    assert not ModelConfig.objects.exists()
    model_download_retry(file=file)
    assert model_download(file.pk) == "failed"
    assert "upload it again" in fresh(file).error


def test_somebody_else_can_not_write_into_it(alice: Any) -> None:
    file = start(alice)
    with pytest.raises(NotFoundError):
        send(file, UserFactory.create())
    assert fresh(file).bytes_done == 0


def test_more_than_was_said(alice: Any) -> None:
    file = start(alice, size=1500)
    send(file, alice, num=1)
    with pytest.raises(InvalidError, match="more than was said"):
        upload_write(file_id=file.pk, offset=PIECE, data=b"x" * 501, actor=alice)


def test_the_disk_gets_full_meanwhile(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = start(alice)
    send(file, alice, num=2)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(uploads.os, "fdatasync", full)
        with pytest.raises(FailedError, match="No space left"):
            send(file, alice)
    assert fresh(file).bytes_done == 2 * PIECE
    assert send(file, alice).state == "queued"
    assert model_download(file.pk) == "ready"


def test_no_room(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": len(BODY) - 1})
    monkeypatch.setattr(uploads.shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(FailedError, match="the disk has"):
        start(alice)
    assert not ModelFile.objects.exists()


def test_cancelling(downloading: Path, alice: Any) -> None:
    file = start(alice)
    send(file, alice, num=2)
    assert model_download_cancel(file=file)
    with pytest.raises(NotFoundError):
        upload_write(file_id=file.pk, offset=2 * PIECE, data=b"x", actor=alice)
    assert left_over(downloading) == []


def test_uploads_that_are_given_up(downloading: Path, alice: Any) -> None:
    old, young = start(alice), start(alice, name="young")
    send(old, alice, num=1)
    ModelFile.objects.filter(pk=old.pk).update(heartbeat_at=timezone.now() - 2 * ABANDONED)
    assert upload_sweep(timezone.now() - timedelta(hours=1)) == 1
    assert (fresh(old).state, fresh(young).state) == ("cancelled", "uploading")
    assert left_over(downloading) == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"file_name": "x.bin"}, "GGUF"),
        ({"file_name": "../x.gguf"}, "GGUF"),
        ({"file_name": "x\0.gguf"}, "GGUF"),
        ({"file_name": "\u1234" * 255 + ".gguf"}, "too long"),
        ({"file_name": "m-00001-of-00002.gguf"}, "several files"),
        ({"size": 0}, "LLAMAWEB_DOWNLOAD_MAX_BYTES"),
        ({"size": 2**60}, "LLAMAWEB_DOWNLOAD_MAX_BYTES"),
        ({"sha256": "abc"}, "64 hexadecimal"),
        ({"name": "default"}, "reserved"),
    ],
)
def test_what_can_not_be_started(alice: Any, values: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidError, match=reason):
        start(alice, **values)
    assert not ModelFile.objects.exists()


def test_names_and_number_of_uploads(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start(alice)
    with pytest.raises(InvalidError, match="is being fetched"):
        start(alice, file_name="other.gguf")
    monkeypatch.setattr(uploads, "MAX_OPEN", 1)
    with pytest.raises(InvalidError, match="cancel one first"):
        start(alice, name="other")
