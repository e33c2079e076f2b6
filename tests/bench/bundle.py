"""What a browser loads before the app shows: from Vite's manifest, compressed as a server would."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

ENTRY = "src/main.ts"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Bytes after gzip."""

    javascript: int
    css: int


def first_load(dist: Path) -> Bundle:
    """The entry with all that it imports statically."""
    manifest = json.loads((dist / "manifest.json").read_text("utf-8"))
    chunks: dict[str, dict[str, object]] = {}
    todo = [ENTRY]
    while todo:
        name = todo.pop()
        if name not in chunks:
            chunks[name] = manifest[name]
            todo.extend(manifest[name].get("imports", ()))
    scripts = {str(chunk["file"]) for chunk in chunks.values()}
    styles = {str(css) for chunk in chunks.values() for css in chunk.get("css", ())}  # type: ignore[attr-defined]
    return Bundle(_size(dist, scripts), _size(dist, styles))


def _size(dist: Path, files: set[str]) -> int:
    return sum(len(gzip.compress((dist / name).read_bytes(), 9)) for name in files)
