"""Downloads of model files: the acts of administrators, and the sweep. The work: `download_job`.

The row is the durability, not the message: a job takes it by a guarded update, keeps a heartbeat
in it, and the sweep sends another job for what waits or whose job was killed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from celery import current_app
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from inference.models import ModelFile
from inference.registry.config_services import name_check
from inference.registry.download_place import harmless, names_differ, remove_all, source_name
from inference.registry.hub import HubModel
from inference.registry.hub_choice import MAX_SHARDS
from inference.registry.model_sets import SHARD_RE
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
Role = ModelFile.Role
OPEN = (State.QUEUED, State.DOWNLOADING, State.PAUSED, State.UPLOADING)


@dataclass(frozen=True, slots=True)
class Source:
    """A file to be fetched. `sha256`, `size`: what it has to have; "" and None: any will do."""

    url: str
    role: str = ModelFile.Role.MODEL
    sha256: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is made of a download: files called `label`, a model called `name`."""

    label: str
    name: str
    load: bool
    context_len: int = 0


def model_download_start(
    *,
    url: str,
    name: str,
    sha256: str = "",
    load: bool = False,
    actor: User | None = None,
    address: str | None = None,
) -> ModelFile:
    """Fetch a GGUF file, or all files of the model whose first one it is by its name; when they are
    there, make a model called `name` of it.

    `sha256`: what the (first) file's digest has to be, "" to take what comes.

    Raises:
        InvalidError: the address, the digest or the name can't be used; too many downloads.
    """
    check_url(url)
    sha256 = sha256.strip().lower()
    if sha256 and not SHA256_RE.fullmatch(sha256):
        raise InvalidError("a SHA-256 has 64 hexadecimal digits", param="sha256")
    first, *others = _shard_urls(url)
    sources = [Source(first, sha256=sha256), *(Source(one, Role.SHARD) for one in others)]
    match = SHARD_RE.fullmatch(source_name(url))
    label = match["stem"] if match is not None else ""
    wanted = _Wanted(label=label, name=name, load=load)
    return _start(sources, wanted, actor=actor, address=address)


def hub_download_start(
    *,
    model: HubModel,
    name: str,
    load: bool = False,
    context_len: int = 0,
    actor: User | None = None,
    address: str | None = None,
) -> ModelFile:
    """Fetch all files of a hub's model; when they are there, make a model called `name` of it, with
    `context_len` tokens a slot (0: the usual).

    Raises:
        InvalidError: the name can't be used; too many downloads.
    """
    first, *others = model.files
    sources = [
        Source(model.url(first), sha256=first.sha256, size=first.size),
        *(Source(model.url(o), Role.SHARD, o.sha256, o.size) for o in others),
    ]
    if model.mmproj is not None:
        beside = model.mmproj
        sources.append(Source(model.url(beside), Role.MMPROJ, beside.sha256, beside.size))
    label = f"{model.repo.partition('/')[2]}-{model.quant}"
    wanted = _Wanted(label=label, name=name, load=load, context_len=context_len)
    return _start(sources, wanted, actor=actor, address=address)


def model_download_pause(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> bool:
    """Leave a download as it is until it is resumed. False: it isn't on its way."""
    open_ = (State.QUEUED, State.DOWNLOADING)
    return _move(file, open_, State.PAUSED, AuditAction.MODEL_DOWNLOAD_PAUSED, actor, address)


def model_download_resume(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> bool:
    """Go on with a paused download. False: it isn't one."""
    action = AuditAction.MODEL_DOWNLOAD_RESUMED
    return _move(file, (State.PAUSED,), State.QUEUED, action, actor, address)


def model_download_retry(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> bool:
    """Try a failed or cancelled download again, from where it was. False: it is neither."""
    ended = (State.FAILED, State.CANCELLED)
    return _move(file, ended, State.QUEUED, AuditAction.MODEL_DOWNLOAD_RETRIED, actor, address)


def model_download_cancel(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> bool:
    """End a download; what is there of the files goes. False: it isn't on its way any more."""
    with transaction.atomic():
        done = _move(
            file, OPEN, State.CANCELLED, AuditAction.MODEL_DOWNLOAD_CANCELLED, actor, address
        )
        if done:
            rows = ModelFile.objects.filter(Q(pk=file.pk) | Q(main=file), is_owned=True, path="")
            rows.update(bytes_done=0, etag="", sha256="", size=F("expected_size"), error="")
            gone = sorted(rows.select_related("main"), key=lambda row: row.main_id is not None)
            # The job that writes them notices.
            transaction.on_commit(lambda: remove_all(gone))
    return done


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
    waiting = Q(state=State.QUEUED) | Q(is_stale, state=State.DOWNLOADING)
    return ModelFile.objects.filter(waiting, main=None)


def running(now: datetime) -> QuerySet[ModelFile]:
    """Downloads that a living job works on."""
    alive = Q(state=State.DOWNLOADING, heartbeat_at__gte=now - STALE)
    return ModelFile.objects.filter(alive, main=None)


def send(file_id: int) -> None:
    """Ask for a job; a broker that is away doesn't matter, the sweep asks again."""
    try:
        current_app.send_task(TASK, args=[file_id], expires=TASK_EXPIRES_S)
    except OperationalError:
        log.warning("download %d waits for the sweep", file_id)


def host_of(url: str) -> str:
    """The host of an address, for the audit log: the rest may hold a secret."""
    return check_url(url).host[:200]


def _shard_urls(url: str) -> list[str]:
    """The addresses of all files of a model, if this one's says that it is the first of several.

    Raises:
        InvalidError: it is a later one's, or of too many.
    """
    match = SHARD_RE.fullmatch(source_name(url))
    if match is None:
        return [url]
    if int(match["no"]) != 1:
        raise InvalidError("give the address of the model's first file (-00001-of-…)", param="url")
    count = int(match["count"])
    if not 1 <= count <= MAX_SHARDS:
        raise InvalidError(f"a model can't have {count:,} files", param="url")
    path, mark, rest = url.partition("?")
    stem, _, tail = path.rpartition("-00001-of-")
    return [f"{stem}-{no:05d}-of-{tail}{mark}{rest}" for no in range(1, count + 1)]


def _start(
    sources: Sequence[Source], wanted: _Wanted, *, actor: User | None, address: str | None
) -> ModelFile:
    """Rows of a download; the first source is the file that is loaded."""
    name = wanted.name
    if not names_differ([source.url for source in sources]):
        raise InvalidError("two of the model's files have the same name", param="source")
    with transaction.atomic():
        name_check(name)
        waiting = ModelFile.objects.filter(state__in=OPEN, main=None)
        if waiting.filter(config_name=name).exists():
            raise InvalidError("a model of this name is being downloaded", param="name")
        if waiting.count() >= MAX_WAITING:
            raise InvalidError(f"{MAX_WAITING} downloads wait already; cancel one first")
        file = _row(
            sources[0],
            config_name=name,
            config_context_len=wanted.context_len,
            load_when_ready=wanted.load,
            created_by=actor,
        )
        if len(sources) > 1:
            file.label = f"{harmless(wanted.label) or 'model'}-{file.pk}"
            file.save(update_fields=["label"])
            for source in sources[1:]:
                _row(source, main=file, created_by=actor)
        host = host_of(sources[0].url)
        _written(AuditAction.MODEL_DOWNLOAD_STARTED, file, actor, address, host=host)
        transaction.on_commit(lambda: send(file.pk))
    return file


def _row(source: Source, **values: Any) -> ModelFile:
    return ModelFile.objects.create(
        is_owned=True,
        role=source.role,
        source_url=source.url,
        expected_sha256=source.sha256,
        expected_size=source.size,
        size=source.size,
        **values,
    )


def _move(
    file: ModelFile,
    states: Sequence[str],
    state: State,
    action: AuditAction,
    actor: User | None,
    address: str | None,
) -> bool:
    """Bring a download, all its files, from one of `states` to another; False: it is in none."""
    with transaction.atomic():
        found = ModelFile.objects.filter(pk=file.pk, is_owned=True, main=None, path="")
        changed = found.filter(state__in=states).update(
            state=state, error="", heartbeat_at=None, taken_by=""
        )
        if changed:
            ModelFile.objects.filter(main=file, is_owned=True, path="").update(state=state)
            _written(action, file, actor, address)
            if state == State.QUEUED:
                transaction.on_commit(lambda: send(file.pk))
    return bool(changed)


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
