"""Model files as they are on the disk now: what their headers say, or why nobody can tell."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from django.conf import settings

from inference.models import PATH_LEN
from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.header import GgufHeader
from inference.registry.gguf.process import read_descriptor
from inference.registry.model_dir import opened, opened_in, signature_of
from inference.registry.model_sets import FoundFile, ModelSet, assemble, shard_names
from inference.registry.templates import template_facts
from llamaweb.lib.errors import InvalidError


@dataclass(frozen=True, slots=True)
class Reading:
    """A file that was read. `header` is None where `error` says why; `template_facts`: see
    `ModelFile`."""

    path: Path
    size: int = 0
    signature: str = ""
    header: GgufHeader | None = None
    error: str = ""
    template_facts: dict[str, Any] = field(default_factory=dict)

    def found(self, path: PurePosixPath) -> FoundFile:
        """As the file at `path` of a folder."""
        return FoundFile(path, self.header.facts if self.header else None, self.error)


def models_dir() -> Path:
    """Our own folder; rows name what is in it by this."""
    folder: Path = settings.DATA_DIR.models
    return folder


@contextlib.contextmanager
def opened_file(path: Path) -> Iterator[int]:
    """A descriptor of the model file at `path`, reached over no link but those to our own folder.

    Raises:
        InvalidError: a part of the path is a link, or the file isn't a regular one.
        OSError: it can't be opened.
    """
    folder = models_dir()
    inside = path.is_relative_to(folder)
    with (
        opened_in(folder, PurePosixPath(path.relative_to(folder)))
        if inside
        else opened(path) as descriptor
    ):
        yield descriptor


def reading_of(path: Path, descriptor: int) -> Reading:
    """Read the open file; a damaged one is a reading too.

    Raises:
        FailedError: no process could be started for it.
    """
    info = os.fstat(descriptor)
    signature = signature_of(info)
    try:
        header = read_descriptor(descriptor)
    except GgufError as error:
        return Reading(path, info.st_size, signature, error=error.message)
    can = template_facts(header.templates)
    return Reading(path, info.st_size, signature, header, template_facts=can)


def place_of(path: str) -> Path:
    """The real place that somebody names: a name in the models directory, or a whole path.

    Links are followed outside of that directory only, and once: here.

    Raises:
        InvalidError: it can't be a path, or it goes over a link in the models directory.
        OSError, RuntimeError: there is no such file.
    """
    if not path or "\0" in path or len(path) > PATH_LEN:
        raise InvalidError("give the path of a file", param="path")
    folder = models_dir()
    named = folder / path  # a whole path stays one
    for root in (folder, folder.resolve()):
        if named.is_relative_to(root):
            inner = named.relative_to(root)
            with opened_in(root, PurePosixPath(inner)):
                return folder / inner
    return named.resolve(strict=True)


def model_read(path: Path) -> tuple[ModelSet, dict[PurePosixPath, Reading]]:
    """The model whose first file is at `path`, with its other shards, and what was read by name.

    Raises:
        InvalidError: there is no regular file.
        OSError: it can't be read.
    """
    main_name = PurePosixPath(path.name)
    readings = {main_name: _read(path)}
    header = readings[main_name].header
    count = header.facts.split.count if header else 1
    for name in shard_names(path.name, count)[1:]:
        try:
            readings[PurePosixPath(name)] = _read(path.with_name(name))
        except FileNotFoundError:
            continue
        except InvalidError as error:
            readings[PurePosixPath(name)] = Reading(path.with_name(name), error=error.message)
    others = {name.name: reading.found(name) for name, reading in readings.items()}
    return assemble(readings[main_name].found(main_name), others, label=""), readings


def _read(path: Path) -> Reading:
    with opened_file(path) as descriptor:
        return reading_of(path, descriptor)


def unchanged(path: Path, signature: str) -> bool:
    """Whether the file at `path` is still the one that was read."""
    try:
        with opened_file(path) as descriptor:
            return signature_of(os.fstat(descriptor)) == signature
    except (OSError, InvalidError):
        return False
