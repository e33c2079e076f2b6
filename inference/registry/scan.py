"""The models directory looked through: every model in it becomes a row, with what its header says.

Nothing is removed: what has vanished is marked as missing, and is ready again when it is back.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction

from inference.models import ModelFile
from inference.registry.download_place import final_path
from inference.registry.files import ERROR_LEN, NOT_ALONE, State, facts_of, reason_of, set_store
from inference.registry.model_dir import Entry, entries, opened_in
from inference.registry.model_sets import FoundFile, ModelSet, group
from inference.registry.readings import Reading, model_read, models_dir, reading_of, unchanged
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import BusyError, InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

SETTLED = (State.READY, State.MISSING, State.INCOMPLETE, State.DAMAGED)
MAX_SKIPPED = 20  # told of


@dataclass(slots=True)
class ScanResult:
    """What came of a look. `skipped`: names and why they can't be models."""

    num_models: int = 0
    num_new: int = 0
    num_read: int = 0
    num_missing: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)


def models_scan(*, actor: User | None = None, address: str | None = None) -> ScanResult:
    """Look through the models directory, and after the files elsewhere that models are made of.

    Raises:
        BusyError: somebody else is looking.
        InvalidError: the directory can't be read, or holds too much.
    """
    with _alone():
        result = _scan_dir(models_dir())
        _look_elsewhere(result)
    if actor is not None:
        with transaction.atomic():
            audit_record(
                action=AuditAction.MODEL_FILES_SCANNED,
                actor=actor,
                target=None,
                address=address,
                models=result.num_models,
                new=result.num_new,
                missing=result.num_missing,
            )
    return result


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """One look at a time, on this machine."""
    path = settings.DATA_DIR.models / ".scan.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InvalidError(f"the models directory can't be used: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise BusyError(
            "the models directory is being looked through", reason="scan", retry_after_s=5.0
        ) from None
    finally:
        os.close(descriptor)


def _scan_dir(root: Path) -> ScanResult:
    result = ScanResult()
    try:
        listed = entries(root)
    except OSError as error:
        raise InvalidError(f"the models directory can't be read: {error.strerror}") from error
    # Read after the listing: a download that lies in its place is a row by now, or its job's.
    rows = {Path(row.path): row for row in ModelFile.objects.exclude(path="")}
    unplaced = ModelFile.objects.filter(path="", is_owned=True).select_related("main")
    coming = {final_path(row) for row in unplaced}
    readings: dict[PurePosixPath, Reading] = {}
    found: list[FoundFile] = []
    for entry in listed:
        if entry.problem:
            result.skipped.append((str(entry.path), entry.problem))
        elif root / entry.path not in coming:
            file = _file(root, entry, rows.get(root / entry.path), readings, result)
            found += [] if file is None else [file]
    sets = group(found)
    for one in sets:
        _, is_new = set_store(_as_listed(one), root, readings)
        result.num_new += is_new
    result.num_models = sum(one.role == "model" for one in sets)
    _settle(root, {root / one.main for one in sets}, {root / f.path for f in found}, result)
    del result.skipped[MAX_SKIPPED:]
    return result


def _file(
    root: Path,
    entry: Entry,
    row: ModelFile | None,
    readings: dict[PurePosixPath, Reading],
    result: ScanResult,
) -> FoundFile | None:
    """What is in a file: as its row says if it is still the same, else as its header does."""
    if row is not None and row.signature == entry.signature:
        facts = facts_of(row)
        if facts is not None:
            return FoundFile(entry.path, facts)
    try:
        with opened_in(root, entry.path) as descriptor:
            reading = reading_of(root / entry.path, descriptor)
    except (OSError, InvalidError) as error:
        result.skipped.append((str(entry.path), reason_of(error)))
        return None
    readings[entry.path] = reading
    result.num_read += 1
    return reading.found(entry.path)


def _as_listed(one: ModelSet) -> ModelSet:
    """A file that is nothing by itself and belongs to nothing says so."""
    if one.problem or one.facts is None or one.role != "other":
        return one
    return replace(one, problem=f"this file is {NOT_ALONE[one.facts.kind]}")


def _settle(root: Path, mains: set[Path], files: set[Path], result: ScanResult) -> None:
    """Rows of what isn't in its place any more, or is a part of a model by now."""
    for row in ModelFile.objects.filter(main=None, state__in=SETTLED).exclude(path=""):
        path = Path(row.path)
        if not path.is_relative_to(root) or path in mains:
            continue
        if path not in files:
            result.num_missing += _miss(row)
        elif not row.is_owned and not row.configs.exists():
            row.delete()


def _miss(row: ModelFile) -> bool:
    """Mark a row as missing; what lay beside it is no part of it then. False: it was."""
    row.parts.filter(is_owned=False).delete()
    missing = ModelFile.objects.filter(pk=row.pk).exclude(state=State.MISSING)
    return bool(missing.update(state=State.MISSING, error="the file isn't there any more"))


def _look_elsewhere(result: ScanResult) -> None:
    """After files that somebody named by their path."""
    root = models_dir()
    for row in ModelFile.objects.filter(main=None, state__in=SETTLED).exclude(path=""):
        path = Path(row.path)
        if path.is_relative_to(root):
            continue
        if row.state == State.READY and row.signature and unchanged(path, row.signature):
            continue
        try:
            one, readings = model_read(path)
        except FileNotFoundError:
            result.num_missing += _miss(row)
        except (OSError, InvalidError) as error:
            values = {"state": State.DAMAGED, "error": reason_of(error)[:ERROR_LEN]}
            ModelFile.objects.filter(pk=row.pk).update(**values)
        else:
            result.num_read += len(readings)
            set_store(replace(one, label=row.label), path.parent, readings)
