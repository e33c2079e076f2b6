"""Downloads that go on after kills, cuts and full disks, and only with the same file."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from inference.models import ModelFile
from inference.registry import download_fetch, download_job
from inference.registry.download_job import model_download
from inference.registry.downloads import (
    STALE,
    model_download_retry,
    model_download_sweep,
)
from inference.registry.files import partial_path
from tests.registry.downloading import (
    BODY,
    SHA256,
    WAIT_S,
    die,
    failed,
    fresh,
    left_over,
    start,
)
from tests.registry.job_process import job_process
from tests.registry.source import Source
from tests.stack import wait_for

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_goes_on_after_a_kill(downloading: Path, source: Source) -> None:
    half = len(BODY) // 2
    source.hold_at = half
    file = start(source, sha256=SHA256)
    with job_process(file.pk) as process:
        try:
            assert source.is_held.wait(WAIT_S)
            wait_for("half is written down", lambda: fresh(file).bytes_done >= half - 2**16, WAIT_S)
        finally:
            process.kill()
    source.go_on.set()
    assert model_download(file.pk) == ""  # its heartbeat is young: it may live elsewhere
    ModelFile.objects.update(heartbeat_at=timezone.now() - 2 * STALE)
    assert model_download_sweep() == 1
    done = fresh(file).bytes_done
    assert model_download(file.pk) == "ready"
    assert Path(fresh(file).path).read_bytes() == BODY
    assert source.asked[-1]["range"] == f"bytes={done}-"
    assert source.asked[-1]["if-range"] == '"v1"'


def test_a_killed_job_that_had_moved_the_file(downloading: Path, source: Source) -> None:
    file = start(source)
    die(file, at="config")
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


def test_a_stopping_process_hands_it_back(downloading: Path, source: Source) -> None:
    file = start(source)
    download_job.stopping.set()
    assert model_download(file.pk) == "queued"
    download_job.stopping.clear()
    assert model_download_sweep() == 1
    assert model_download(file.pk) == "ready"
