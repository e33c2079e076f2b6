"""Stamps: small files that say from which inputs something was made.

A step runs again only when the hash of its inputs is not the one in its stamp, so a second
`make run` has nothing to do and needs no network.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

CHUNK_BYTES = 1024 * 1024


def content_hash(root: Path, paths: Iterable[Path]) -> str:
    """Hash of names (relative to `root`) and contents; folders count with all files below.

    What doesn't exist counts as absent, so that its appearing changes the hash.
    """
    digest = hashlib.sha256()
    for path in sorted(_files(paths)):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        if path.is_file():
            digest.update(_file_digest(path))
        else:
            digest.update(b"absent")
    return digest.hexdigest()


def _files(paths: Iterable[Path]) -> set[Path]:
    found: set[Path] = set()
    for path in paths:
        if path.is_dir():
            found.update(file for file in path.rglob("*") if file.is_file())
        else:
            found.add(path)
    return found


def _file_digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.digest()


def read_stamp(path: Path) -> dict[str, str]:
    """What the stamp says; empty when there is none or it can't be read."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def write_stamp(path: Path, values: Mapping[str, str]) -> None:
    """Replace the stamp in one move; call it after the step succeeded."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(dict(values), indent=1, sort_keys=True) + "\n")
    draft.replace(path)
