"""The work behind a download: fetch, check, put in its place.

Two locks: the partial file's (one job a host, gone with its process) and the row's guarded update.
Bytes count as done once they are on the disk. The file gets its own name only when it is whole,
has the right digest and is a model.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from inference.models import ModelFile
from inference.registry.config_services import config_of_file, name_check
from inference.registry.download_fetch import READ_BYTES, Fetcher, Part, Stream
from inference.registry.downloads import MAX_RUNNING, State, needs_job, running
from inference.registry.files import check_alone, files_remove, header_values, partial_path
from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.header import GgufHeader
from inference.registry.gguf.process import read_header
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import FailedError, InvalidError, LlamawebError
from llamaweb.lib.ids import new_id

log = logging.getLogger(__name__)

WRITE_EVERY_S = 1.0
PAUSE_STEP_S = 0.25
ERROR_LEN = 500
MAX_STEM_CHARS = 80
RESERVE_BYTES = 512 * 1024 * 1024  # of the disk that others still need
stopping = threading.Event()  # this process is asked to end: hand downloads back


class Lost(Exception):
    """The row isn't this job's any more: cancelled, deleted, or another job's."""


class HandBack(Exception):
    """The process ends; another one goes on."""


def model_download(file_id: int) -> str:
    """Do what is left of a download; returns the state it has then, "" if it isn't ours to do."""
    with _locked(partial_path(file_id)) as stream:
        if stream is None:
            return ""
        job = _take(file_id, stream)
        if job is not None:
            _run(job)
    row = ModelFile.objects.filter(pk=file_id).first()
    if row is None or row.state in (State.READY, State.CANCELLED):
        files_remove(partial_path(file_id))
    return "" if row is None or job is None else row.state


def _run(job: _Job) -> None:
    try:
        job.run()
    except Lost:
        log.info("download %d isn't wanted any more", job.row.pk)
        row = ModelFile.objects.filter(pk=job.row.pk).first()
        if row is None or row.state == State.CANCELLED:
            files_remove(job.final)
    except HandBack:
        job.hand_back()
    except InvalidError as error:
        job.fail(error.message, keep=False)
    except LlamawebError as error:
        job.fail(error.message, keep=True)
    except OSError as error:
        job.fail(f"the disk: {error.strerror or 'it failed'}", keep=True)
    except Exception:
        log.exception("download %d failed", job.row.pk)
        job.fail("an internal error; the log has more", keep=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[Stream | None]:
    """The partial file, open for reading and writing, or None if another job has it."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield stream


def _take(file_id: int, stream: Stream) -> _Job | None:
    """Make the row this job's, if it waits or its job was killed."""
    now = timezone.now()
    if running(now).exclude(pk=file_id).count() >= MAX_RUNNING:
        return None
    name = new_id("job-")
    mine = needs_job(now).filter(pk=file_id, is_owned=True)
    taken = mine.update(state=State.DOWNLOADING, taken_by=name, heartbeat_at=now, error="")
    return _Job(ModelFile.objects.get(pk=file_id), name, stream) if taken else None


class _Job:
    """A taken row. Every write is guarded by its being taken by this job."""

    def __init__(self, row: ModelFile, name: str, stream: Stream) -> None:
        self.row = row
        self.final = final_path(row)
        self._name = name
        self._part = Part(stream)
        self._fetcher = Fetcher(
            row.source_url,
            self._part,
            etag=row.etag,
            expected=bool(row.expected_sha256),
            note=self._note,
            pause=self._pause,
        )
        self._written_ts = 0.0

    def run(self) -> None:
        """Fetch what is missing, check, and put the file in its place."""
        if self.final.is_file():  # a job was killed after it had put it there
            digest = self._digest_of(self.final)
            path = self.final
        else:
            self._part.keep(self.row.bytes_done, self._alive)
            if not (self.row.size and self._part.size == self.row.size):
                self._fetcher.run()
                self._write_progress()
            digest = self._part.digest.hexdigest()
            path = partial_path(self.row.pk)
        self._finish(path, digest, self._check(path, digest))

    def fail(self, message: str, *, keep: bool) -> None:
        """Say why it ended. `keep`: what is there is of use for another try."""
        values: dict[str, object] = {"state": State.FAILED, "error": message[:ERROR_LEN]}
        if not keep:
            values |= {"bytes_done": 0, "etag": "", "size": None}
        with contextlib.suppress(Lost), transaction.atomic():
            self._write(**values)
            self._audit("failed", message[:200])
        if not keep:
            files_remove(partial_path(self.row.pk))

    def hand_back(self) -> None:
        """Let another process go on."""
        with contextlib.suppress(Lost):
            self._write(state=State.QUEUED, taken_by="")

    def _check(self, path: Path, digest: str) -> GgufHeader:
        """Whether it is what was asked for."""
        wanted = self.row.expected_sha256
        if wanted and digest != wanted:
            raise InvalidError(f"the file has another SHA-256 ({digest}); it was thrown away")
        try:
            header = read_header(path)
            check_alone(header.facts)
            if header.facts.split.count > 1:
                raise GgufError(f"this is one of {header.facts.split.count} files of a model")
        except GgufError as error:
            raise InvalidError(f"{error.message}; it was thrown away") from error
        return header

    def _finish(self, path: Path, digest: str, header: GgufHeader) -> None:
        self._alive(force=True)
        values = header_values(header)  # takes a moment: not in the transaction
        if path != self.final:
            path.rename(self.final)
            _sync_folder(self.final.parent)
        with transaction.atomic():
            self._write(
                state=State.READY,
                path=str(self.final),
                sha256=digest,
                taken_by="",
                error="",
                **values,
            )
            self._audit("ready")
            self._make_config()

    def _make_config(self) -> None:
        """The model that was asked for; a name taken meanwhile, or a file that holds no model that
        answers, leaves the file without one."""
        row = ModelFile.objects.select_related("created_by").get(pk=self.row.pk)
        if not row.config_name:
            return
        name, load = row.config_name, row.load_when_ready
        try:
            name_check(name)
            config_of_file(row, name=name, load=load, actor=row.created_by)
        except InvalidError as error:
            message = f"no model was made of it: {error.message}"[:ERROR_LEN]
            ModelFile.objects.filter(pk=row.pk).update(error=message)

    def _note(self) -> None:
        """With every piece: once a second write it down, look at the disk and for a cancel."""
        if stopping.is_set():
            self._write_progress()
            raise HandBack
        if time.monotonic() - self._written_ts >= WRITE_EVERY_S:
            self._write_progress()
            self._check_disk()

    def _write_progress(self) -> None:
        self._part.sync()
        total = self._fetcher.total
        size = {} if total is None else {"size": total}
        self._write(bytes_done=self._part.size, etag=self._fetcher.etag, **size)

    def _check_disk(self) -> None:
        left = 0 if self._fetcher.total is None else self._fetcher.total - self._part.size
        free = shutil.disk_usage(settings.DATA_DIR.models).free
        if free < left + RESERVE_BYTES:
            raise FailedError(
                f"the disk has {free >> 20:,} MiB left; {left + RESERVE_BYTES >> 20:,} are needed"
            )

    def _pause(self, seconds: float) -> None:
        """Wait, still alive."""
        until_ts = time.monotonic() + seconds
        while time.monotonic() < until_ts:
            stopping.wait(PAUSE_STEP_S)
            self._note()

    def _alive(self, *, force: bool = False) -> None:
        """A sign of life while nothing is fetched."""
        if stopping.is_set():
            raise HandBack
        if force or time.monotonic() - self._written_ts >= WRITE_EVERY_S:
            self._write()

    def _write(self, **values: object) -> None:
        """Change the row and say that this job lives.

        Raises:
            Lost: it isn't ours any more.
        """
        mine = ModelFile.objects.filter(
            pk=self.row.pk, taken_by=self._name, state=State.DOWNLOADING
        )
        if not mine.update(heartbeat_at=timezone.now(), **values):
            raise Lost
        self._written_ts = time.monotonic()

    def _digest_of(self, path: Path) -> str:
        digest = hashlib.sha256()
        with path.open("rb") as stream:
            while data := stream.read(READ_BYTES):
                digest.update(data)
                self._alive()
        return digest.hexdigest()

    def _audit(self, outcome: str, reason: str = "") -> None:
        audit_record(
            action=AuditAction.MODEL_DOWNLOAD_ENDED,
            actor=None,
            target=self.row,
            file=str(self.row)[:200],
            name=self.row.config_name,
            outcome=outcome,
            reason=reason,
        )


def final_path(row: ModelFile) -> Path:
    """Where a download lies when it is whole: its source's name made harmless, and its number."""
    name = unquote(urlsplit(row.source_url).path.rpartition("/")[2])
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name.removesuffix(".gguf"))[:MAX_STEM_CHARS]
    folder: Path = settings.DATA_DIR.models
    return folder / f"{stem.strip('-._') or 'model'}-{row.pk}.gguf"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
