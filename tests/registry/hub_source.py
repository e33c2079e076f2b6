"""A hub of models, as the real one answers, on a web server of the test's."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from tests.registry.source import Source

REVISION = "0123456789abcdef0123456789abcdef01234567"
SEARCH = "/api/models"


def entry(path: Any, body: bytes = b"GGUF", **changes: Any) -> dict[str, Any]:
    """A file in a listing."""
    lfs = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}
    return {"type": "file", "oid": "f" * 40, "size": len(body), "path": path, "lfs": lfs} | changes


def found(name: Any, **changes: Any) -> dict[str, Any]:
    """A repository in the answer to a search, with what was asked to be told of it."""
    about = {"total": 268_000_000, "architecture": "gemma3", "context_length": 32_768}
    return {
        "_id": "6" * 24,
        "id": name,
        "downloads": 1234,
        "likes": 56,
        "gated": False,
        "lastModified": "2026-11-01T08:00:00.000Z",
        "gguf": about,
    } | changes


@dataclass
class Hub:
    """`publish` makes a repository; what else its hub says is `source`'s."""

    source: Source
    repo: str = "ada/tiny-GGUF"
    listed: list[Any] = field(default_factory=list)

    def publish(self, **changes: Any) -> None:
        """Serve what is `listed`."""
        about = {"id": self.repo, "sha": REVISION, "gated": False} | changes
        self.source.files[f"/api/models/{self.repo}"] = json.dumps(about).encode()
        self.source.files[self.tree] = json.dumps(self.listed).encode()

    def add(self, **bodies: bytes) -> None:
        """Files by path."""
        for path, body in bodies.items():
            self.listed.append(entry(path, body))
            self.source.files[self.path_of(path)] = body
        self.publish()

    def finds(self, *repos: Any) -> None:
        """Answer every search with these."""
        self.source.files[SEARCH] = json.dumps(repos).encode()

    @property
    def searches(self) -> list[dict[str, list[str]]]:
        """What was searched for, in order."""
        paths = (asked[":path"].partition("?") for asked in self.source.asked)
        return [parse_qs(query) for path, _, query in paths if path == SEARCH]

    @property
    def tree(self) -> str:
        return f"/api/models/{self.repo}/tree/{REVISION}"

    def path_of(self, path: str) -> str:
        """Where a file's bytes are."""
        return f"/{self.repo}/resolve/{REVISION}/{path}"
