"""The models directory: its files, opened by names that lead nowhere else.

Every part of a path is opened without following links, so neither a link that lies there nor one
that is swapped in while somebody looks leads out of the directory.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from llamaweb.lib.errors import InvalidError

MAX_DEPTH: Final = 4  # folders in folders
MAX_ENTRIES: Final = 20_000  # looked at
MAX_FILES: Final = 2_000
SUFFIX: Final = ".gguf"
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking: whoever opens a pipe waits for its other end.
_FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@dataclass(frozen=True, slots=True)
class Entry:
    """A `.gguf` in the directory. `signature`: changes when the file does. `problem`: why it is
    none that can be used, such as a link."""

    path: PurePosixPath
    size: int = 0
    signature: str = ""
    problem: str = ""


def signature_of(info: os.stat_result) -> str:
    """What tells a changed file from the one that was read."""
    return f"{info.st_dev}:{info.st_ino}:{info.st_size}:{info.st_mtime_ns}:{info.st_ctime_ns}"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of the regular file at an absolute `path` that goes over no link.

    Raises:
        InvalidError: a part of the path is a link, or the file isn't a regular one.
        OSError: it can't be opened.
    """
    if not path.is_absolute() or ".." in path.parts:
        raise InvalidError("give the whole path of a file, from / on", param="path")
    descriptor = _open_at(os.open("/", _FOLDER_FLAGS), path.parts[1:])
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def opened_in(folder: Path, name: PurePosixPath | str) -> Iterator[int]:
    """As `opened`, of a name in `folder`, which itself may be reached by links."""
    parts = PurePosixPath(name).parts
    if not parts or PurePosixPath(name).is_absolute() or ".." in parts:
        raise InvalidError("the name leads out of the models directory", param="path")
    descriptor = _open_at(os.open(folder.resolve(), _FOLDER_FLAGS), parts)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def entries(folder: Path) -> list[Entry]:
    """The `.gguf` files in `folder` and the folders in it; hidden ones are left out.

    Raises:
        InvalidError: there are more than can be.
        OSError: the folder can't be read.
    """
    found: list[Entry] = []
    descriptor = os.open(folder.resolve(), _FOLDER_FLAGS)
    try:
        _collect(descriptor, PurePosixPath(), found, [MAX_ENTRIES])
    finally:
        os.close(descriptor)
    return sorted(found, key=lambda entry: entry.path)


def _collect(descriptor: int, path: PurePosixPath, found: list[Entry], left: list[int]) -> None:
    with os.scandir(descriptor) as items:
        for item in items:
            left[0] -= 1
            if left[0] < 0 or len(found) >= MAX_FILES:
                raise InvalidError(
                    f"the models directory has more than {MAX_FILES:,} models or "
                    f"{MAX_ENTRIES:,} files"
                )
            if item.name.startswith("."):
                continue
            if not _is_text(item.name):
                found.append(Entry(path / ascii(item.name), problem="its name is no text in UTF-8"))
                continue
            if item.name.lower().endswith(SUFFIX) and not item.is_dir(follow_symlinks=False):
                found.append(_entry(descriptor, path / item.name))
            elif item.is_symlink():
                if item.is_dir():
                    found.append(Entry(path / item.name, problem="it is a symbolic link"))
            elif item.is_dir(follow_symlinks=False) and len(path.parts) < MAX_DEPTH:
                _collect_folder(descriptor, path / item.name, found, left)


def _collect_folder(parent: int, path: PurePosixPath, found: list[Entry], left: list[int]) -> None:
    try:
        descriptor = os.open(path.name, _FOLDER_FLAGS, dir_fd=parent)
    except OSError as error:  # swapped for a link, gone, or closed to us
        found.append(Entry(path, problem=_reason(error)))
        return
    try:
        _collect(descriptor, path, found, left)
    finally:
        os.close(descriptor)


def _entry(parent: int, path: PurePosixPath) -> Entry:
    try:
        info = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        return Entry(path, problem=_reason(error))
    if stat.S_ISLNK(info.st_mode):
        return Entry(path, problem="it is a symbolic link")
    if not stat.S_ISREG(info.st_mode):
        return Entry(path, problem="it is not a regular file")
    return Entry(path, info.st_size, signature_of(info))


def _open_at(descriptor: int, parts: tuple[str, ...]) -> int:
    """Follow `parts` from the folder `descriptor`, which is closed."""
    for number, part in enumerate(parts):
        flags = _FILE_FLAGS if number == len(parts) - 1 else _FOLDER_FLAGS
        try:
            found = os.open(part, flags, dir_fd=descriptor)
        except OSError as error:
            is_link = error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(part, descriptor)
            if is_link:
                raise InvalidError(f"{part!r} is a symbolic link", param="path") from error
            raise
        finally:
            os.close(descriptor)
        descriptor = found
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InvalidError("this is not a regular file", param="path")
    return descriptor


def _is_link(name: str, parent: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_text(name: str) -> bool:
    """Whether a name can be written down: not one that is no UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(error: OSError) -> str:
    return "it is a symbolic link" if error.errno == errno.ELOOP else str(error.strerror)
