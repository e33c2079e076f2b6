"""Model files that an administrator sends, piece by piece; a lost connection costs one piece.

When the last one is there, the jobs process checks the file and puts it in its place, as it does
with a download: see `download_job`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from inference.models import URL_LEN, ModelFile
from inference.registry import download_job, downloads
from inference.registry.config_services import name_check
from inference.registry.download_fetch import Stream
from inference.registry.download_file import UPLOADED, opened_piece
from inference.registry.downloads import OPEN, SHA256_RE, State
from inference.registry.files import partial_path
from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.header import MAGIC
from inference.registry.model_sets import SHARD_RE, SUFFIX
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import BusyError, FailedError, InvalidError, NotFoundError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

PIECE_BYTES: Final = 4 * 1024 * 1024
MAX_OPEN: Final = 10
ABANDONED: Final = timedelta(hours=24)  # without a piece


def piece_bytes() -> int:
    """How much may be sent at a time."""
    return min(PIECE_BYTES, int(settings.MAX_BODY_BYTES))


def upload_start(
    *,
    file_name: str,
    size: int,
    name: str,
    sha256: str = "",
    load: bool = False,
    actor: User,
    address: str | None = None,
) -> ModelFile:
    """Begin to take a GGUF file of `size` bytes, or go on with the same one of the same person:
    `bytes_done` are here. When all are, a model called `name` is made of it.

    Raises:
        InvalidError: the name, size or digest can't be; there are too many uploads.
        FailedError: there is no room for it.
    """
    sha256 = sha256.strip().lower()
    url = UPLOADED + quote(file_name)
    _check(file_name, size, sha256)
    if len(url) > URL_LEN:
        raise InvalidError("the file's name is too long", param="file")
    with transaction.atomic():
        name_check(name)
        coming = ModelFile.objects.filter(state=State.UPLOADING)
        known = coming.filter(
            source_url=url, expected_size=size, config_name=name, created_by=actor
        ).first()
        if known is not None:
            return known
        if ModelFile.objects.filter(state__in=OPEN, main=None, config_name=name).exists():
            raise InvalidError("a model of this name is being fetched", param="name")
        if coming.count() >= MAX_OPEN:
            raise InvalidError(f"{MAX_OPEN} uploads are open already; cancel one first")
        _room_check(size)
        row = ModelFile.objects.create(
            is_owned=True,
            state=State.UPLOADING,
            source_url=url,
            expected_sha256=sha256,
            expected_size=size,
            size=size,
            config_name=name,
            load_when_ready=load,
            created_by=actor,
            heartbeat_at=timezone.now(),
        )
        audit_record(
            action=AuditAction.MODEL_UPLOAD_STARTED,
            actor=actor,
            target=row,
            address=address,
            file=str(row)[:200],
            name=name,
            size=size,
        )
    return row


def upload_write(*, file_id: int, offset: int, data: bytes, actor: User) -> ModelFile:
    """Take a piece that begins at `offset`, and with the last one have the file checked.

    A piece that isn't the next one changes nothing: the row says how many bytes are here.

    Raises:
        NotFoundError: there is no such upload of this person, or it has ended.
        InvalidError: more bytes than the file has, or they can't be a model's.
        BusyError: another piece of it is being written.
        FailedError: the disk is full; what is there is kept.
    """
    _open_row(file_id, actor)  # before anything is made on the disk
    with _locked(file_id) as stream:
        try:
            row = _open_row(file_id, actor)
        except NotFoundError:
            partial_path(file_id).unlink(missing_ok=True)  # cancelled meanwhile
            raise
        size = row.expected_size or 0
        if offset != row.bytes_done:
            return row
        if len(data) > min(size - offset, piece_bytes()):
            raise InvalidError("that is more than was said")
        if offset == 0 and data and not data.startswith(MAGIC):
            downloads.model_download_cancel(file=row, actor=actor)
            raise GgufError("this is not a GGUF file")
        _room_check(size - offset)
        _append(stream, offset, data)
        return _advance(row, offset + len(data))


def upload_sweep(now: datetime | None = None) -> int:
    """End uploads that nobody goes on with; returns how many."""
    before = (now or timezone.now()) - ABANDONED
    old = ModelFile.objects.filter(state=State.UPLOADING, heartbeat_at__lt=before)
    return sum(downloads.model_download_cancel(file=row) for row in old)


def _check(file_name: str, size: int, sha256: str) -> None:
    if not file_name.lower().endswith(SUFFIX) or "/" in file_name or not file_name.isprintable():
        raise InvalidError("give a GGUF file (.gguf)", param="file")
    if SHARD_RE.fullmatch(file_name):
        raise InvalidError(
            "this is one of several files of a model: put all of them into the models directory",
            param="file",
        )
    if not len(MAGIC) <= size <= settings.DOWNLOAD_MAX_BYTES:
        raise InvalidError(
            f"the file has {size:,} bytes; LLAMAWEB_DOWNLOAD_MAX_BYTES allows "
            f"{settings.DOWNLOAD_MAX_BYTES:,}",
            param="file",
        )
    if sha256 and not SHA256_RE.fullmatch(sha256):
        raise InvalidError("a SHA-256 has 64 hexadecimal digits", param="sha256")


def _room_check(left: int) -> None:
    free = shutil.disk_usage(settings.DATA_DIR.models).free
    needed = left + download_job.RESERVE_BYTES
    if free < needed:
        raise FailedError(f"the disk has {free >> 20:,} MiB left; {needed >> 20:,} are needed")


def _open_row(file_id: int, actor: User) -> ModelFile:
    row = ModelFile.objects.filter(pk=file_id, created_by=actor, state=State.UPLOADING).first()
    if row is None:
        raise NotFoundError("there is no such upload; it may have been cancelled")
    return row


@contextlib.contextmanager
def _locked(file_id: int) -> Iterator[Stream]:
    """The piece of it that is here, for one writer at a time."""
    with opened_piece(partial_path(file_id)) as stream:
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                "a piece is being written", reason="upload", retry_after_s=1.0
            ) from None
        yield stream


def _append(stream: Stream, offset: int, data: bytes) -> None:
    """Write behind what counts already; bytes after that are of a piece that broke off."""
    try:
        stream.truncate(offset)
        stream.seek(offset)
        view = memoryview(data)
        while view:
            view = view[stream.write(bytes(view)) or 0 :]
        os.fdatasync(stream.fileno())
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        more = "; what is there is kept: make room, then go on" if is_full else ""
        raise FailedError(f"the disk: {error.strerror or 'it failed'}{more}") from error


def _advance(row: ModelFile, done: int) -> ModelFile:
    """Count a piece that is on the disk; the last one makes it a job's."""
    is_whole = done == row.expected_size
    with transaction.atomic():
        mine = ModelFile.objects.filter(pk=row.pk, state=State.UPLOADING)
        changed = mine.update(
            bytes_done=done,
            state=State.QUEUED if is_whole else State.UPLOADING,
            heartbeat_at=None if is_whole else timezone.now(),
        )
        if changed and is_whole:
            transaction.on_commit(lambda: downloads.send(row.pk))
    if not changed:
        raise NotFoundError("the upload was cancelled")
    row.refresh_from_db()
    return row
