"""Downloads against a real web server: whole or not at all, and never from where they may not."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from inference.models import ModelConfig, ModelFile
from inference.registry import download_fetch, download_job, downloads
from inference.registry.download_job import model_download
from inference.registry.downloads import (
    STALE,
    model_download_cancel,
    model_download_retry,
    model_download_start,
    model_download_sweep,
)
from inference.registry.files import model_file_delete, partial_path
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.errors import InvalidError
from tests.registry.gguf_files import model
from tests.registry.source import Source
from tests.stack import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
BODY = model(num_values=500_000)  # 2 MB
SHA256 = hashlib.sha256(BODY).hexdigest()
WAIT_S = 20.0


def start(source: Source, **values: Any) -> ModelFile:
    source.body = source.body or BODY
    return model_download_start(**{"url": source.url, "name": "tiny", **values})


def fresh(file: ModelFile) -> ModelFile:
    return ModelFile.objects.get(pk=file.pk)


def left_over(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def failed(file: ModelFile, folder: Path, *, kept: bool = False) -> str:
    """The reason of a failure that left no model behind."""
    row = fresh(file)
    assert (row.state, row.path) == ("failed", "")
    assert not ModelConfig.objects.exists()
    assert [name for name in left_over(folder) if name.endswith(".gguf")] == []
    assert partial_path(row.pk).exists() == kept
    return row.error


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


def test_it_goes_on_after_a_kill(downloading: Path, source: Source) -> None:
    half = len(BODY) // 2
    source.hold_at = half
    file = start(source, sha256=SHA256)
    connection.close()
    pid = os.fork()
    if pid == 0:
        try:
            download_job.WRITE_EVERY_S = 0.0
            model_download(file.pk)
        finally:
            os._exit(1)
    assert source.is_held.wait(WAIT_S)
    wait_for("half of it is written down", lambda: fresh(file).bytes_done >= half - 2**16, WAIT_S)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    source.go_on.set()
    assert model_download(file.pk) == ""  # its heartbeat is young: it may live elsewhere
    ModelFile.objects.update(heartbeat_at=timezone.now() - 2 * STALE)
    assert model_download_sweep() == 1
    done = fresh(file).bytes_done
    assert model_download(file.pk) == "ready"
    assert Path(fresh(file).path).read_bytes() == BODY
    assert source.asked[-1]["range"] == f"bytes={done}-"
    assert source.asked[-1]["if-range"] == '"v1"'


def test_a_killed_job_that_had_moved_the_file(
    downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = start(source)
    with monkeypatch.context() as patch:
        patch.setattr(download_job._Job, "_make_config", lambda _self: os._exit(9))
        connection.close()
        pid = os.fork()
        if pid == 0:
            model_download(file.pk)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert len(left_over(downloading)) == 1
    assert fresh(file).state == "downloading"
    ModelFile.objects.update(heartbeat_at=None)
    num_asked = len(source.asked)
    assert model_download(file.pk) == "ready"
    assert len(source.asked) == num_asked
    assert fresh(file).sha256 == SHA256
    assert left_over(downloading) == [Path(fresh(file).path).name]


def test_a_broken_connection_is_taken_up_again(downloading: Path, source: Source) -> None:
    source.cut_at = 1_500_000
    assert model_download(start(source).pk) == "ready"
    assert [asked.get("range") for asked in source.asked] == [None, "bytes=1500000-"]


def test_a_changed_file_is_fetched_from_the_start(downloading: Path, source: Source) -> None:
    file = start(source)
    partial_path(file.pk).parent.mkdir()
    partial_path(file.pk).write_bytes(b"GGUF of before")
    ModelFile.objects.update(bytes_done=14, etag='"v0"')
    assert model_download(file.pk) == "ready"
    assert source.asked[-1]["if-range"] == '"v0"'
    assert fresh(file).sha256 == SHA256


@pytest.mark.parametrize("etag", ["", 'W/"v1"'])
def test_without_a_way_to_notice_a_change_nothing_is_gone_on_with(
    downloading: Path, source: Source, etag: str
) -> None:
    source.etag, source.cut_at = etag, 1_500_000
    assert model_download(start(source).pk) == "ready"
    assert [asked.get("range") for asked in source.asked] == [None, None]


def test_a_server_that_knows_no_ranges(downloading: Path, source: Source) -> None:
    source.ranges, source.cut_at = False, 1_500_000
    assert model_download(start(source).pk) == "ready"


def test_bytes_that_may_not_be_on_the_disk_do_not_count(downloading: Path, source: Source) -> None:
    file = start(source, sha256=SHA256)
    partial_path(file.pk).parent.mkdir()
    partial_path(file.pk).write_bytes(BODY[:5000] + b"\0" * 5000)
    ModelFile.objects.update(bytes_done=5000)
    assert model_download(file.pk) == "ready"
    assert source.asked[-1]["range"] == "bytes=5000-"


def test_a_wrong_digest(downloading: Path, source: Source) -> None:
    file = start(source, sha256="0" * 64)
    model_download(file.pk)
    assert SHA256 in failed(file, downloading)
    assert fresh(file).bytes_done == 0


def test_a_truncated_model(downloading: Path, source: Source) -> None:
    source.body = BODY[:-1]
    file = start(source)
    model_download(file.pk)
    assert "cut off" in failed(file, downloading)


def test_what_is_no_model_ends_with_its_first_bytes(downloading: Path, source: Source) -> None:
    source.body, source.endless = b"<!doctype html>" * 99, True
    file = start(source)
    model_download(file.pk)
    assert "not a GGUF file" in failed(file, downloading)


def test_an_endless_body(downloading: Path, source: Source, settings: Any) -> None:
    settings.DOWNLOAD_MAX_BYTES = 3_000_000
    source.endless = True
    file = start(source)
    model_download(file.pk)
    assert "3,000,000" in failed(file, downloading)


def test_a_body_that_says_it_is_too_large(downloading: Path, source: Source, settings: Any) -> None:
    settings.DOWNLOAD_MAX_BYTES = 1_000_000
    file = start(source)
    model_download(file.pk)
    assert "LLAMAWEB_DOWNLOAD_MAX_BYTES" in failed(file, downloading)


def test_no_room(downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_job, "RESERVE_BYTES", 2**60)
    file = start(source)
    model_download(file.pk)
    assert "the disk has" in failed(file, downloading, kept=True)


def test_the_disk_gets_full_meanwhile(
    downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = download_fetch.Part.write, [0]

    def full(self: Any, data: bytes) -> None:
        calls[0] += 1
        if calls[0] == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(self, data)

    monkeypatch.setattr(download_fetch.Part, "write", full)
    file = start(source)
    model_download(file.pk)
    assert "No space left" in failed(file, downloading, kept=True)
    assert model_download_retry(file=file)
    assert model_download(file.pk) == "ready"
    assert fresh(file).sha256 == SHA256


def test_a_redirect_to_a_private_address(downloading: Path, source: Source) -> None:
    source.status, source.headers = 302, {"Location": "http://10.0.0.1/model.gguf"}
    file = start(source)
    model_download(file.pk)
    assert "LLAMAWEB_OUTBOUND_ALLOW" in failed(file, downloading, kept=True)


def test_a_private_address(downloading: Path, source: Source, settings: Any) -> None:
    settings.OUTBOUND_ALLOW = ()
    file = start(source)
    model_download(file.pk)
    assert "isn't public" in failed(file, downloading, kept=True)
    assert source.asked == []


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, 6), (429, 6)])
def test_refusals(downloading: Path, source: Source, status: int, tries: int) -> None:
    source.status = status
    file = start(source)
    model_download(file.pk)
    assert str(status) in failed(file, downloading, kept=tries > 1)
    assert len(source.asked) == tries


def test_a_server_that_is_away_for_a_moment(downloading: Path, source: Source) -> None:
    source.statuses = [503, 429]
    assert model_download(start(source).pk) == "ready"


def test_a_server_that_trickles(
    downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llamaweb.lib import outbound

    monkeypatch.setattr(outbound, "SLOW_AFTER_S", 0.2)
    monkeypatch.setattr(outbound, "SLOW_BYTES", 10**6)
    monkeypatch.setattr(download_fetch, "MAX_TRIES", 1)
    source.piece, source.pause_s = 100, 0.02
    file = start(source)
    model_download(file.pk)
    assert "too slowly" in failed(file, downloading, kept=True)


def test_cancelling(downloading: Path, source: Source, alice: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(download_job, "WRITE_EVERY_S", 0.0)
    source.endless, source.pause_s = True, 0.01
    file = start(source)
    thread = threading.Thread(target=_in_thread, args=(file.pk,))
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


def _in_thread(file_id: int) -> None:
    try:
        model_download(file_id)
    finally:
        connection.close()


def test_a_stopping_process_hands_it_back(downloading: Path, source: Source) -> None:
    file = start(source)
    download_job.stopping.set()
    assert model_download(file.pk) == "queued"
    download_job.stopping.clear()
    assert model_download_sweep() == 1
    assert model_download(file.pk) == "ready"


def test_progress_is_written_once_a_second_at_most(
    downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download_job, "WRITE_EVERY_S", 3600.0)
    writes: list[dict[str, Any]] = []
    real = download_job._Job._write

    def write(self: Any, **values: Any) -> None:
        writes.append(values)
        real(self, **values)

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
    thread = threading.Thread(target=_in_thread, args=(file.pk,))
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
