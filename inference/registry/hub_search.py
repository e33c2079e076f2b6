"""Repositories of the hub that hold GGUF models, found by words. What it answers is only shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings

from inference.registry.gguf.errors import shown
from inference.registry.hub import REPO_RE, ask
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.outbound import UnreachableError

MAX_QUERY_LEN: Final = 200
MAX_FOUND: Final = 30
MAX_COUNT: Final = 2**53
SHOWN_LEN: Final = 40
FIELDS: Final = ("downloads", "likes", "gated", "lastModified", "gguf")


@dataclass(frozen=True, slots=True)
class FoundRepo:
    """A repository as its hub describes it; 0, "" and False where it doesn't say. `changed`: the
    day, as 2026-11-30."""

    name: str
    num_downloads: int = 0
    num_likes: int = 0
    num_params: int = 0
    architecture: str = ""
    changed: str = ""
    is_gated: bool = False


def hub_search(query: str) -> list[FoundRepo]:
    """Repositories whose name matches, the most downloaded first, `MAX_FOUND` at most. Asks the
    hub: takes a second or so.

    Raises:
        InvalidError: the query is too long, or the hub refuses.
        UnreachableError, ForbiddenError: the hub can't be asked.
    """
    query = query.strip()
    if len(query) > MAX_QUERY_LEN or not query.isprintable():
        raise InvalidError(f"at most {MAX_QUERY_LEN} printable characters", param="q")
    asked = [
        *(("search", query), ("filter", "gguf"), ("sort", "downloads"), ("direction", "-1")),
        ("limit", str(MAX_FOUND)),
        *(("expand[]", name) for name in FIELDS),
    ]
    answer, _ = ask(f"{settings.HUB_URL}/api/models?{urlencode(asked)}")
    if not isinstance(answer, list):
        raise UnreachableError("the hub's answer is no list")
    return [repo for item in answer[:MAX_FOUND] if (repo := _repo(item)) is not None]


def _repo(item: Any) -> FoundRepo | None:
    """None: nothing that could be asked for."""
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        return None
    name: str = item["id"]
    if not REPO_RE.fullmatch(name) or ".." in name:
        return None
    about = item.get("gguf")
    gguf: Mapping[str, Any] = about if isinstance(about, dict) else {}
    return FoundRepo(
        name=name,
        num_downloads=_count(item.get("downloads")),
        num_likes=_count(item.get("likes")),
        num_params=_count(gguf.get("total")),
        architecture=_text(gguf.get("architecture")),
        changed=_text(item.get("lastModified"))[:10],
        is_gated=bool(item.get("gated")),
    )


def _count(value: Any) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if is_count else 0


def _text(value: Any) -> str:
    return shown(value, SHOWN_LEN) if isinstance(value, str) else ""
