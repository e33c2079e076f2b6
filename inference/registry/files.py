"""Model files: taken up where they lie, removed only when they are ours."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from django.db import transaction

from inference.models import ModelFile
from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.facts import GgufFacts, facts_from_plain, facts_to_plain
from inference.registry.gguf.header import GgufHeader
from inference.registry.model_sets import FoundFile, ModelSet, together
from inference.registry.readings import Reading, model_read, models_dir, opened_file, place_of
from inference.registry.templates import template_facts
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import FailedError, InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

State = ModelFile.State
Role = ModelFile.Role
ERROR_LEN = 500
MAX_KEPT_TEMPLATE_CHARS = 256 * 1024  # of all of a file's templates together
# What can't be served by itself, and what it is.
NOT_ALONE = {
    "shard": "part {no} of {count} of a model; take the first one",
    "mmproj": "an encoder of images or sound for another model",
    "draft": "a draft of another model",
    "adapter": "an adapter ({adapter}) for models of the architecture {architecture}",
    "vocabulary": "a vocabulary without weights",
    "other": "no model",
}


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A whole model on this server: its first file, and all that was read by name."""

    path: Path
    model: ModelSet
    readings: Mapping[PurePosixPath, Reading]


def file_check(path: str) -> FoundModel:
    """The model at `path`, a whole path or a name in the models directory. Takes a second or so.

    Raises:
        InvalidError: not a regular, readable file with a whole model in it.
    """
    try:
        found = place_of(path)
        model, readings = model_read(found)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it can't be resolved"
        raise InvalidError(f"the file can't be read: {reason}", param="path") from error
    if model.problem or model.facts is None:
        raise GgufError(model.problem, param="path")
    check_alone(model.facts)
    return FoundModel(found, model, readings)


def file_add(found: FoundModel, *, created_by: User | None) -> ModelFile:
    """The row of a model, made when there is none; in the transaction of what uses it."""
    known = ModelFile.objects.filter(path=str(found.path), main=None).first()
    label = known.label if known is not None else ""
    model = replace(found.model, label=label)
    row, _ = set_store(model, found.path.parent, found.readings, created_by=created_by)
    return row


def check_alone(facts: GgufFacts) -> None:
    """Whether the file is a model by itself.

    Raises:
        GgufError: it is a part of one, or something else.
    """
    what = NOT_ALONE.get(facts.kind)
    if what is not None:
        text = what.format(
            no=facts.split.no + 1,
            count=facts.split.count,
            adapter=facts.adapter.kind or "of an unknown kind",
            architecture=facts.architecture or "?",
        )
        raise GgufError(f"this file is no model by itself but {text}", param="path")


def facts_of(file: ModelFile) -> GgufFacts | None:
    """What is known of a file's own header; None if it hasn't been read."""
    return facts_from_plain(file.facts)


def model_facts(file: ModelFile) -> GgufFacts | None:
    """As `facts_of`, with the sums of all shards."""
    facts = facts_of(file)
    if facts is None or facts.split.count == 1:
        return facts
    parts = [facts_of(part) for part in file.parts.all() if part.role == Role.SHARD]
    return together(facts, [part for part in parts if part is not None])


def ready_check(file: ModelFile) -> None:
    """Whether a model can be loaded, as far as its row says.

    Raises:
        InvalidError: it isn't there, or not whole; the message says what is wrong.
    """
    if file.state != State.READY:
        state = State(file.state).label
        raise InvalidError(f"{file} can't be loaded ({state}): {file.error or 'not ready'}")


def loadable_path(file: ModelFile) -> Path:
    """Where an engine finds a model, after one more look at its files.

    Raises:
        FailedError: one of them is gone, a link, or not a regular file.
    """
    names = [file.path, *(part.path for part in file.parts.all() if part.role == Role.SHARD)]
    for name in names:
        try:
            with opened_file(Path(name)):
                continue
        except (OSError, InvalidError) as error:
            raise FailedError(f"{Path(name).name}: {reason_of(error)}") from error
    return Path(file.path)


def reason_of(error: OSError | InvalidError) -> str:
    """Why a file can't be used."""
    return error.message if isinstance(error, InvalidError) else error.strerror or "it failed"


def header_values(header: GgufHeader, can: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a row keeps of a header. `can`: its `template_facts`, if they are known already."""
    facts = header.facts
    kept = sum(map(len, header.templates.values())) <= MAX_KEPT_TEMPLATE_CHARS
    return {
        "size": facts.size,
        "bytes_done": facts.size,
        "architecture": facts.architecture,
        "title": facts.name,
        "context_len": facts.context_len,
        "has_chat_template": "" in header.templates,
        "facts": facts_to_plain(facts),
        "templates": header.templates if kept else {},
        "template_facts": template_facts(header.templates) if can is None else can,
    }


def set_store(
    one: ModelSet,
    root: Path,
    readings: Mapping[PurePosixPath, Reading],
    *,
    created_by: User | None = None,
) -> tuple[ModelFile, bool]:
    """Keep what was read of a model in `root` and of its other files; whether that is new.

    Readings are by path in `root`; a file that isn't among them is as its row says.
    """
    state = State.READY
    if one.problem:
        state = State.DAMAGED if one.is_whole else State.INCOMPLETE
    values = _values(readings.get(one.main)) | {
        "role": one.role,
        "label": one.label,
        "state": state,
        "error": one.problem[:ERROR_LEN],
    }
    parts = [(root / part.path, _part_values(part, "shard", readings)) for part in one.shards]
    parts += [(root / part.path, _part_values(part, part.role, readings)) for part in one.beside]
    with transaction.atomic():
        main, is_new = _row_store(root / one.main, None, values, created_by)
        kept = [_row_store(path, main, found, main.created_by)[0].pk for path, found in parts]
        gone = main.parts.exclude(pk__in=kept)
        gone.filter(is_owned=False).delete()
        gone.filter(is_owned=True, state=State.READY).update(state=State.MISSING)
    return main, is_new


def _part_values(
    part: FoundFile, role: str, readings: Mapping[PurePosixPath, Reading]
) -> dict[str, Any]:
    state = State.READY if part.facts is not None else State.DAMAGED
    error = part.error[:ERROR_LEN]
    return _values(readings.get(part.path)) | {"role": role, "state": state, "error": error}


def _values(reading: Reading | None) -> dict[str, Any]:
    """Of a file that was read; nothing, of one that wasn't."""
    if reading is None:
        return {}
    values: dict[str, Any] = {"facts": {}}
    if reading.header is not None:
        values = header_values(reading.header, reading.template_facts)
    return values | {
        "size": reading.size,
        "bytes_done": reading.size,
        "signature": reading.signature,
    }


def _row_store(
    path: Path, main: ModelFile | None, values: dict[str, Any], created_by: User | None
) -> tuple[ModelFile, bool]:
    """The row of a file, made or brought up to date; whether it was made."""
    row, is_new = ModelFile.objects.get_or_create(
        path=str(path), main=main, defaults={**values, "created_by": created_by}
    )
    changed = [name for name, value in values.items() if getattr(row, name) != value]
    for name in changed:
        setattr(row, name, values[name])
    if changed:
        row.save(update_fields=[*changed, "updated_at"])
    return row, is_new


def model_file_delete(
    *, file: ModelFile, actor: User | None = None, address: str | None = None
) -> None:
    """Forget a model that nobody uses, with its parts; what of it is ours goes from the disk.

    Raises:
        InvalidError: a model uses it, it is a part of one, or it is on its way.
    """
    with transaction.atomic():
        row = ModelFile.objects.select_for_update().get(pk=file.pk)
        if row.main is not None:
            raise InvalidError(f"{row} is a part of {row.main}; delete that")
        users = ", ".join(row.configs.order_by("name").values_list("name", flat=True)[:5])
        if users:
            raise InvalidError(f"{row} is used by: {users}")
        rows = [row, *row.parts.select_for_update()]
        if any(one.is_open for one in rows):
            raise InvalidError(f"{row} is being downloaded; cancel it first")
        audit_record(
            action=AuditAction.MODEL_FILE_DELETED,
            actor=actor,
            target=row,
            address=address,
            file=str(row),
            is_removed_from_disk=row.is_owned,
        )
        paths = [partial_path(one.pk) for one in rows]
        paths += [Path(one.path) for one in rows if _is_ours(one)]
        row.delete()
        kept = set(
            ModelFile.objects.filter(path__in=map(str, paths)).values_list("path", flat=True)
        )
        transaction.on_commit(lambda: files_remove(*(p for p in paths if str(p) not in kept)))


def partial_path(file_id: int) -> Path:
    """Where a download's bytes are until it is whole."""
    return models_dir() / ".incoming" / f"{file_id}.part"


def is_in_models_dir(path: Path) -> bool:
    """Whether `path` lies in our own folder, or one in that."""
    folder = models_dir()
    return path.is_relative_to(folder) and path != folder and ".." not in path.parts


def _is_ours(row: ModelFile) -> bool:
    return row.is_owned and bool(row.path) and is_in_models_dir(Path(row.path))


def files_remove(*paths: Path) -> None:
    """Remove files, or the links in their places, as far as that can be done, and the folders of
    ours that are empty then."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink()
        folder = path.parent
        while is_in_models_dir(folder) and not folder.name.startswith("."):
            try:
                folder.rmdir()
            except OSError:  # it isn't empty, or not ours to remove
                break
            folder = folder.parent
