"""The work behind a download: fetch, check, put in its place.

Two locks: the first file's piece (one job a host, gone with its process) and the row's guarded
update. Bytes count as done once they are on the disk. A model appears in the models directory only
when each of its files is whole, has the right digest, and they are the files of one model.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import shutil
import threading
import time
from collections.abc import Iterator, Sequence

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from inference.models import ModelFile
from inference.registry.config_services import config_of_file, name_check
from inference.registry.download_fetch import Stream
from inference.registry.download_file import (
    UPLOADED,
    FileWork,
    digest_check,
    header_of,
    opened_piece,
    set_check,
)
from inference.registry.download_place import (
    final_path,
    place_of,
    put_in_place,
    remove_all,
    remove_pieces,
)
from inference.registry.downloads import MAX_RUNNING, State, needs_job, running
from inference.registry.files import Role, files_remove, header_values, partial_path
from inference.registry.gguf.header import GgufHeader
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import FailedError, InvalidError, LlamawebError
from llamaweb.lib.ids import new_id

log = logging.getLogger(__name__)

WRITE_EVERY_S = 1.0
PAUSE_STEP_S = 0.25
ERROR_LEN = 500
RESERVE_BYTES = 512 * 1024 * 1024  # of the disk that others still need
stopping = threading.Event()  # this process is asked to end: hand downloads back


class Lost(Exception):
    """The row isn't this job's any more: paused, cancelled, deleted, or another job's."""


class HandBack(Exception):
    """The process ends; another one goes on."""


def model_download(file_id: int) -> str:
    """Do what is left of a download; returns the state it has then, "" if it isn't ours to do."""
    with _locked(file_id) as stream:
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
            remove_all(job.rows)
    except HandBack:
        job.hand_back()
    except InvalidError as error:
        job.fail(error.message, keep=False)
    except LlamawebError as error:
        job.fail(error.message, keep=True)
    except OSError as error:
        job.fail(_disk_problem(error), keep=True)
    except Exception:
        log.exception("download %d failed", job.row.pk)
        job.fail("an internal error; the log has more", keep=True)


def _disk_problem(error: OSError) -> str:
    message = f"the disk: {error.strerror or 'it failed'}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{message}; what is there is kept: make room, then try again"
    return message


@contextlib.contextmanager
def _locked(file_id: int) -> Iterator[Stream | None]:
    """The piece of the first file, or None if another job has it."""
    with opened_piece(partial_path(file_id)) as stream:
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    """A taken row, and those of the model's other files. Every write is guarded by the first
    one's being taken by this job."""

    def __init__(self, row: ModelFile, name: str, stream: Stream) -> None:
        self.row = row
        parts = list(_coming(row).select_related("main").order_by("pk"))
        self.rows: Sequence[ModelFile] = [row, *parts]
        self._num_shards = 1 + sum(part.role == Role.SHARD for part in parts)
        self._name = name
        self._stream = stream
        self._at: ModelFile | None = None
        self._work: FileWork | None = None
        self._written_ts = 0.0

    def run(self) -> None:
        """Fetch what is missing, check, and put the model in its place."""
        self._check_disk()
        headers = []
        for row in self.rows:
            self._at = row
            headers.append(self._bring(row))
        self._at = None
        set_check(self.rows, headers)
        self._finish(headers)

    def fail(self, message: str, *, keep: bool) -> None:
        """Say why it ended. `keep`: what is there is of use for another try."""
        at = self._at
        if at is not None and len(self.rows) > 1:
            message = f"{final_path(at).name}: {message}"
        bad = [] if keep else self.rows if at is None else [at]
        with contextlib.suppress(Lost), transaction.atomic():
            self._write(state=State.FAILED, error=message[:ERROR_LEN])
            _reset(bad)
            self._audit("failed", message[:200])
        if bad:
            files_remove(*(path for path in map(place_of, bad) if path is not None))
            remove_pieces(bad)

    def hand_back(self) -> None:
        """Let another process go on."""
        with contextlib.suppress(Lost):
            self._write(state=State.QUEUED, taken_by="")

    def _bring(self, row: ModelFile) -> GgufHeader:
        """Have a file whole and checked, in its piece or, if a job was killed late, further."""
        known = place_of(row) if row.sha256 else None
        if known is not None:
            self._alive()
            return header_of(known, row, num_shards=self._num_shards)
        if row.sha256:  # somebody took it away
            row.bytes_done, row.sha256 = 0, ""
        path = partial_path(row.pk)
        own = contextlib.nullcontext(self._stream) if row is self.row else opened_piece(path)
        with own as stream:
            work = FileWork(row, stream, note=self._note, pause=self._pause)
            self._work = work
            digest = work.bring(self._alive)
        digest_check(row, digest, work.part.size)
        header = header_of(path, row, num_shards=self._num_shards)
        values = work.values() | {"size": work.part.size, "sha256": digest}
        self._write(row, **values)
        for name, value in values.items():
            setattr(row, name, value)
        self._work = None
        return header

    def _finish(self, headers: Sequence[GgufHeader]) -> None:
        self._alive(force=True)
        values = [header_values(header) for header in headers]  # takes a moment
        put_in_place(self.rows)
        with transaction.atomic():
            self._write(
                state=State.READY,
                path=str(final_path(self.row)),
                taken_by="",
                error="",
                **values[0],
            )
            for part, found in zip(self.rows[1:], values[1:], strict=True):
                ModelFile.objects.filter(pk=part.pk).update(path=str(final_path(part)), **found)
            self._audit("ready")
            self._make_config()

    def _make_config(self) -> None:
        """The model that was asked for; a name taken meanwhile, or a file that holds no model that
        answers, leaves the file without one."""
        row = ModelFile.objects.select_related("created_by").get(pk=self.row.pk)
        if not row.config_name:
            return
        name = row.config_name
        try:
            name_check(name)
            config_of_file(
                row,
                name=name,
                load=row.load_when_ready,
                context_len=row.config_context_len,
                actor=row.created_by,
            )
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
        assert self._work is not None
        self._work.part.sync()
        self._write(self._work.row, **self._work.values())

    def _check_disk(self) -> None:
        """Whether there is room for all that is still to come."""
        left = 0
        for row in self.rows:
            if self._work is not None and row is self._work.row:
                left += max(0, (self._work.total or 0) - self._work.part.size)
            else:
                left += max(0, (row.size or 0) - row.bytes_done)
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

    def _write(self, row: ModelFile | None = None, **values: object) -> None:
        """Change a row (the first file's) and say that this job lives. The other files' state is
        the first one's.

        Raises:
            Lost: it isn't ours any more.
        """
        is_first = row is None or row is self.row
        mine = ModelFile.objects.filter(
            pk=self.row.pk, taken_by=self._name, state=State.DOWNLOADING
        )
        if not mine.update(heartbeat_at=timezone.now(), **(values if is_first else {})):
            raise Lost
        if row is not None and not is_first:
            ModelFile.objects.filter(pk=row.pk).update(**values)
        if "state" in values:
            _coming(self.row).update(state=values["state"])
        self._written_ts = time.monotonic()

    def _audit(self, outcome: str, reason: str = "") -> None:
        is_upload = self.row.source_url.startswith(UPLOADED)
        audit_record(
            action=AuditAction.MODEL_UPLOAD_ENDED
            if is_upload
            else AuditAction.MODEL_DOWNLOAD_ENDED,
            actor=None,
            target=self.row,
            file=str(self.row)[:200],
            name=self.row.config_name,
            outcome=outcome,
            reason=reason,
        )


def _coming(main: ModelFile) -> QuerySet[ModelFile]:
    """The other files of a model that aren't in their places yet."""
    return ModelFile.objects.filter(main=main, is_owned=True, path="")


def _reset(rows: Sequence[ModelFile]) -> None:
    """Begin with nothing of these."""
    ModelFile.objects.filter(pk__in=[row.pk for row in rows]).update(
        bytes_done=0, etag="", sha256="", size=F("expected_size")
    )
