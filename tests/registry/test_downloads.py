"""Downloads against a real web server: started, watched, ended by people."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from inference.models import ModelConfig, ModelFile
from inference.registry import download_job, downloads
from inference.registry.download_job import model_download
from inference.registry.downloads import (
    STALE,
    model_download_cancel,
    model_download_retry,
    model_download_sweep,
)
from inference.registry.files import model_file_delete
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.errors import InvalidError
from tests.registry.downloading import (
    BODY,
    SHA256,
    WAIT_S,
    fresh,
    left_over,
    run_job,
    start,
)
from tests.registry.source import Source
from tests.stack import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_file_becomes_a_model(
    downloading: Path, source: Source, sent: list[int], alice: Any
) -> None:
    file = start(source, sha256=SHA256.upper(), load=True, actor=alice)
    assert sent == [file.pk]
    assert model_download(file.pk) == "ready"
    row = fresh(file)
    assert Path(row.path) == downloading / f"My-Model.Q4_K_M-{file.pk}.gguf"
    assert Path(row.path).read_bytes() == BODY
    assert (row.sha256, row.size, row.bytes_done) == (SHA256, len(BODY), len(BODY))
    assert (row.architecture, row.context_len) == ("llama", 2048)
    config = ModelConfig.objects.get()
    assert (config.name, config.file_id, config.wanted) == ("tiny", row.pk, "loaded")
    assert left_over(downloading) == [Path(row.path).name]
    events = [(e.action, e.actor_name) for e in AuditEvent.objects.order_by("id")]
    assert events == [
        ("model_file.download_started", "alice"),
        ("model_file.download_ended", ""),
        ("model_config.added", "alice"),
    ]
    assert "secret" not in str([event.detail for event in AuditEvent.objects.all()])
    assert model_download(file.pk) == ""


def test_cancelling(downloading: Path, source: Source, alice: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(download_job, "WRITE_EVERY_S", 0.0)
    source.endless, source.pause_s = True, 0.01
    file = start(source)
    thread = threading.Thread(target=run_job, args=(file.pk,))
    thread.start()
    wait_for("some of it is there", lambda: fresh(file).bytes_done > 0, WAIT_S)
    assert model_download_cancel(file=file, actor=alice)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert left_over(downloading) == []
    assert (fresh(file).state, fresh(file).bytes_done) == ("cancelled", 0)
    assert AuditEvent.objects.filter(action="model_file.download_cancelled").count() == 1
    assert not model_download_cancel(file=file)
    assert model_download(file.pk) == ""
    source.endless = False
    source.pause_s = 0.0
    assert model_download_retry(file=file)
    assert model_download(file.pk) == "ready"


def test_progress_is_written_once_a_second_at_most(
    downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_job, "WRITE_EVERY_S", 3600.0)
    writes: list[dict[str, Any]] = []
    real = download_job._Job._write

    def write(self: Any, *args: Any, **values: Any) -> None:
        writes.append(values)
        real(self, *args, **values)

    monkeypatch.setattr(download_job._Job, "_write", write)
    source.piece = 1000
    assert model_download(start(source).pk) == "ready"
    assert len(writes) <= 4


def test_only_some_at_a_time(downloading: Path, source: Source, sent: list[int]) -> None:
    files = [start(source, name=f"m{number}") for number in range(4)]
    now = timezone.now()
    ModelFile.objects.filter(pk__in=[file.pk for file in files[:2]]).update(
        state="downloading", heartbeat_at=now
    )
    sent.clear()
    assert model_download_sweep(now) == 2
    assert sent == []
    assert model_download(files[2].pk) == ""
    assert fresh(files[2]).state == "queued"
    assert model_download_sweep(now + 2 * STALE) == 2
    assert sent == [files[0].pk, files[1].pk]


def test_two_jobs_never_write_the_same_file(downloading: Path, source: Source) -> None:
    source.hold_at = 1000
    file = start(source)
    thread = threading.Thread(target=run_job, args=(file.pk,))
    thread.start()
    assert source.is_held.wait(WAIT_S)
    ModelFile.objects.update(heartbeat_at=None)
    assert model_download(file.pk) == ""
    source.go_on.set()
    thread.join(WAIT_S)
    assert fresh(file).state == "ready"


def test_a_name_taken_meanwhile_leaves_the_file(downloading: Path, source: Source) -> None:
    file = start(source)
    ModelConfig.objects.create(name="tiny")
    assert model_download(file.pk) == "ready"
    assert "already" in fresh(file).error
    assert ModelConfig.objects.get().file_id is None


@pytest.mark.parametrize(
    "values",
    [
        {"url": "file:///etc/passwd"},
        {"url": "http://user:pass@example.org/x.gguf"},
        {"url": "https://"},
        {"url": "https://exa mple.org/x"},
        {"url": "x" * 3000},
        {"sha256": "abc"},
        {"name": ""},
        {"name": "=cmd|' /C calc'!A0"},
        {"name": "default"},
        {"name": "x" * 200},
    ],
)
def test_what_can_not_be_started(downloading: Path, source: Source, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        start(source, **values)
    assert not ModelFile.objects.exists()


def test_names_and_number_of_downloads(
    downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(source)
    with pytest.raises(InvalidError, match="is being downloaded"):
        start(source)
    monkeypatch.setattr(downloads, "MAX_WAITING", 1)
    with pytest.raises(InvalidError, match="cancel one first"):
        start(source, name="other")


def test_deleting_a_file(downloading: Path, source: Source, alice: Any) -> None:
    file = start(source)
    with pytest.raises(InvalidError, match="cancel it first"):
        model_file_delete(file=file)
    model_download(file.pk)
    with pytest.raises(InvalidError, match="used by: tiny"):
        model_file_delete(file=file)
    ModelConfig.objects.all().delete()
    model_file_delete(file=file, actor=alice)
    assert left_over(downloading) == []
    assert not ModelFile.objects.exists()
    assert AuditEvent.objects.filter(action="model_file.deleted").exists()
