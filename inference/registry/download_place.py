"""Where a download's files lie: pieces and what waits for the rest in a hidden folder, the whole
model in its own place, where it appears at once with all its files.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from inference.models import ModelFile
from inference.registry.files import files_remove, partial_path
from inference.registry.model_sets import SHARD_RE, SUFFIX
from inference.registry.readings import models_dir

MAX_STEM_CHARS: Final = 80


def harmless(name: str) -> str:
    """A name of letters, digits and . _ - only, "" if nothing is left of it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:MAX_STEM_CHARS].strip("-._")


def source_name(url: str) -> str:
    """The last part of an address."""
    return unquote(urlsplit(url).path.rpartition("/")[2])


def file_name(url: str) -> str:
    """What a file of a set is called: its source's name made harmless; a shard still says which
    it is."""
    name = source_name(url)
    match = SHARD_RE.fullmatch(name)
    if match is not None:
        stem = harmless(match["stem"]) or "model"
        return f"{stem}-{match['no']}-of-{match['count']}{SUFFIX}"
    return f"{harmless(name.removesuffix(SUFFIX)) or 'model'}{SUFFIX}"


def final_path(row: ModelFile) -> Path:
    """Where a file lies when its model is whole. A set has a folder, which is its label; a single
    file its own name and number."""
    main = row if row.main is None else row.main
    if main.label:
        return models_dir() / main.label / file_name(row.source_url)
    stem = file_name(row.source_url).removesuffix(SUFFIX)
    return models_dir() / f"{stem}-{row.pk}{SUFFIX}"


def staging(main: ModelFile) -> Path:
    """Where the files of a set are gathered."""
    return models_dir() / ".incoming" / f"{main.pk}.set"


def place_of(row: ModelFile) -> Path | None:
    """Where a file that was checked lies, None if it isn't there as it was."""
    main = row if row.main is None else row.main
    final = final_path(row)
    for path in (final, staging(main) / final.name, partial_path(row.pk)):
        if path.is_file() and not path.is_symlink() and path.stat().st_size == row.size:
            return path
    return None


def put_in_place(rows: Sequence[ModelFile]) -> None:
    """Give the checked files of a model their names: one step, after which all are there.

    Can be done again after a kill at any point of it.
    """
    main = rows[0]
    final = final_path(main)
    if not main.label:
        if not final.is_file():
            partial_path(main.pk).rename(final)
            sync_folder(final.parent)
        return
    if final.parent.is_dir():
        return
    folder = staging(main)
    folder.mkdir(mode=0o700, exist_ok=True)
    for row in rows:
        target = folder / final_path(row).name
        found = place_of(row)
        if found is not None and found != target:
            found.rename(target)
    sync_folder(folder)
    folder.rename(final.parent)
    sync_folder(models_dir())


def remove_all(rows: Sequence[ModelFile]) -> None:
    """What there is of a download, wherever it lies."""
    folder = staging(rows[0])
    finals = [final_path(row) for row in rows]
    files_remove(*finals, *(folder / path.name for path in finals))
    remove_pieces(rows)


def remove_pieces(rows: Sequence[ModelFile]) -> None:
    """What isn't in its place, and what was there to gather it."""
    files_remove(*(partial_path(row.pk) for row in rows))
    with contextlib.suppress(OSError):
        staging(rows[0]).rmdir()


def names_differ(urls: Sequence[str]) -> bool:
    """Whether files of a set would lie side by side."""
    return len({PurePosixPath(file_name(url).lower()) for url in urls}) == len(urls)


def sync_folder(folder: Path) -> None:
    """Have its names on the disk for sure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
