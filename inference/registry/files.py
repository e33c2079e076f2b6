"""Model files: taken up where they lie, removed only when they are ours."""

from __future__ import annotations

import contextlib
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction

from inference.models import PATH_LEN, ModelFile
from inference.registry.gguf import GgufHeader, read_header
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User


def file_check(path: str) -> tuple[Path, GgufHeader]:
    """The real place of a GGUF file on this server, and its header.

    Raises:
        InvalidError: not an absolute path of a regular, readable file with a model in it.
    """
    if not path.startswith("/") or len(path) > PATH_LEN or "\0" in path:
        raise InvalidError("give the whole path of a file, from / on", param="path")
    try:
        found = Path(path).resolve(strict=True)
        if not stat.S_ISREG(found.stat().st_mode):
            raise InvalidError("this is not a regular file", param="path")
        return found, read_header(found)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it can't be resolved"
        raise InvalidError(f"the file can't be read: {reason}", param="path") from error


def file_add(*, path: str, created_by: User | None) -> ModelFile:
    """The row of the file at `path`, made when there is none; in the transaction of its model.

    Raises:
        InvalidError: as of `file_check`.
    """
    found, header = file_check(path)
    known = ModelFile.objects.filter(path=str(found), state=ModelFile.State.READY).first()
    if known is not None:
        return known
    return ModelFile.objects.create(
        path=str(found),
        state=ModelFile.State.READY,
        created_by=created_by,
        **header_values(header),
    )


def header_values(header: GgufHeader) -> dict[str, Any]:
    """What a row keeps of a header."""
    return {
        "size": header.size,
        "bytes_done": header.size,
        "architecture": header.architecture,
        "title": header.name,
        "context_len": header.context_len,
        "has_chat_template": header.has_chat_template,
    }


def model_file_delete(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> None:
    """Forget a file that no model uses; from the disk it goes only if it was downloaded by us.

    Raises:
        InvalidError: a model uses it, or it is on its way.
    """
    with transaction.atomic():
        row = ModelFile.objects.select_for_update().get(pk=file.pk)
        users = ", ".join(row.configs.order_by("name").values_list("name", flat=True)[:5])
        if users:
            raise InvalidError(f"{row} is used by: {users}")
        if row.is_open:
            raise InvalidError(f"{row} is being downloaded; cancel it first")
        audit_record(
            action=AuditAction.MODEL_FILE_DELETED,
            actor=actor,
            target=row,
            address=address,
            file=str(row),
            is_removed_from_disk=row.is_owned,
        )
        paths = [partial_path(row.pk)]
        if row.is_owned and row.path and is_in_models_dir(Path(row.path)):
            paths.append(Path(row.path))
        row.delete()
        transaction.on_commit(lambda: files_remove(*paths))


def partial_path(file_id: int) -> Path:
    """Where a download's bytes are until it is whole."""
    folder: Path = settings.DATA_DIR.models / ".incoming"
    return folder / f"{file_id}.part"


def is_in_models_dir(path: Path) -> bool:
    """Whether `path` lies directly in our own folder."""
    folder: Path = settings.DATA_DIR.models
    return path.parent == folder.resolve() or path.parent == folder


def files_remove(*paths: Path) -> None:
    """Remove files, or the links in their places, as far as that can be done."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
