"""Downloads of model files: the acts of administrators, and the sweep. The work: `download_job`.

The row is the durability, not the message: a job takes it by a guarded update, keeps a heartbeat
in it, and the sweep sends another job for what waits or whose job was killed.
"""

from __future__ import annotations

import logging
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from celery import current_app
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from inference.models import ModelFile
from inference.registry.config_services import name_check
from inference.registry.files import files_remove, partial_path
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.outbound import check_url

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

log = logging.getLogger(__name__)

TASK = "inference.tasks.model_download"
TASK_EXPIRES_S = 30
MAX_RUNNING = 2  # at a time: each takes one of the jobs' threads
MAX_WAITING = 50
STALE = timedelta(seconds=15)  # a job without a heartbeat for that long is looked after
SHA256_RE = re.compile(r"[0-9a-f]{64}")
State = ModelFile.State


def model_download_start(
    *,
    url: str,
    name: str,
    sha256: str = "",
    load: bool = False,
    actor: User | None = None,
    address: str | None = None,
) -> ModelFile:
    """Fetch a GGUF file; when it is there, make a model called `name` of it.

    `sha256`: what the file's digest has to be, "" to take what comes.

    Raises:
        InvalidError: the address, the digest or the name can't be used; too many downloads.
    """
    check_url(url)
    sha256 = sha256.strip().lower()
    if sha256 and not SHA256_RE.fullmatch(sha256):
        raise InvalidError("a SHA-256 has 64 hexadecimal digits", param="sha256")
    with transaction.atomic():
        name_check(name)
        waiting = ModelFile.objects.filter(state__in=(State.QUEUED, State.DOWNLOADING))
        if waiting.filter(config_name=name).exists():
            raise InvalidError("a model of this name is being downloaded", param="name")
        if waiting.count() >= MAX_WAITING:
            raise InvalidError(f"{MAX_WAITING} downloads wait already; cancel one first")
        file = ModelFile.objects.create(
            is_owned=True,
            source_url=url,
            expected_sha256=sha256,
            config_name=name,
            load_when_ready=load,
            created_by=actor,
        )
        _written(AuditAction.MODEL_DOWNLOAD_STARTED, file, actor, address, host=host_of(url))
        transaction.on_commit(lambda: send(file.pk))
    return file


def model_download_cancel(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> bool:
    """End a download; what is there of the file goes. False: it isn't on its way any more."""
    with transaction.atomic():
        changed = ModelFile.objects.filter(
            pk=file.pk, state__in=(State.QUEUED, State.DOWNLOADING)
        ).update(state=State.CANCELLED, bytes_done=0, etag="", error="")
        if changed:
            _written(AuditAction.MODEL_DOWNLOAD_CANCELLED, file, actor, address)
            # The job that writes it notices.
            transaction.on_commit(lambda: files_remove(partial_path(file.pk)))
    return bool(changed)


def model_download_retry(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> bool:
    """Try a failed or cancelled download again, from where it was. False: it is neither."""
    with transaction.atomic():
        changed = ModelFile.objects.filter(
            pk=file.pk, is_owned=True, state__in=(State.FAILED, State.CANCELLED)
        ).update(state=State.QUEUED, error="", heartbeat_at=None, taken_by="")
        if changed:
            _written(AuditAction.MODEL_DOWNLOAD_RETRIED, file, actor, address)
            transaction.on_commit(lambda: send(file.pk))
    return bool(changed)


def model_download_sweep(now: datetime | None = None) -> int:
    """Send a job for every download that waits or whose job was killed; returns how many."""
    now = now or timezone.now()
    ids = list(needs_job(now).order_by("created_at").values_list("pk", flat=True)[:MAX_RUNNING])
    free = MAX_RUNNING - running(now).count()
    for file_id in ids[: max(0, free)]:
        send(file_id)
    return len(ids)


def needs_job(now: datetime) -> QuerySet[ModelFile]:
    """Downloads that nobody works on."""
    is_stale = Q(heartbeat_at=None) | Q(heartbeat_at__lt=now - STALE)
    return ModelFile.objects.filter(Q(state=State.QUEUED) | Q(is_stale, state=State.DOWNLOADING))


def running(now: datetime) -> QuerySet[ModelFile]:
    """Downloads that a living job works on."""
    return ModelFile.objects.filter(state=State.DOWNLOADING, heartbeat_at__gte=now - STALE)


def send(file_id: int) -> None:
    """Ask for a job; a broker that is away doesn't matter, the sweep asks again."""
    try:
        current_app.send_task(TASK, args=[file_id], expires=TASK_EXPIRES_S)
    except OperationalError:
        log.warning("download %d waits for the sweep", file_id)


def host_of(url: str) -> str:
    """The host of an address, for the audit log: the rest may hold a secret."""
    return check_url(url).host[:200]


def _written(
    action: AuditAction, file: ModelFile, actor: User | None, address: str | None, **detail: str
) -> None:
    audit_record(
        action=action,
        actor=actor,
        target=file,
        address=address,
        file=str(file)[:200],
        name=file.config_name,
        **detail,
    )
