"""Models of a hub (huggingface.co): which files `user/repo:QUANT` means, with sizes and digests.

Nothing that the hub answers is believed but after a look: names become no paths of ours, numbers
are bounded. Every request goes through the outbound client; the token goes to the hub only.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, urljoin

from django.conf import settings

from inference.registry.hub_choice import (
    HubFile,
    choose,
    encoders_of,
    mains_of,
    mmproj_of,
    shards_of,
)
from llamaweb.lib.addresses import Allow
from llamaweb.lib.errors import InvalidError, LlamawebError
from llamaweb.lib.outbound import Response, UnreachableError, check_url, fetch

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}"
REPO_RE: Final = re.compile(rf"{NAME}/{NAME}")
REFERENCE_RE: Final = re.compile(rf"(?P<repo>{NAME}/{NAME})(?::(?P<quant>[A-Za-z0-9._-]{{1,64}}))?")
LINK_RE: Final = re.compile(r'<([^<>]{1,4096})>\s*;\s*rel="next"')
REVISION_RE: Final = re.compile(r"[0-9a-f]{40}")
SHA256_RE: Final = re.compile(r"[0-9a-f]{64}")
ASK_S: Final = 20.0  # for one answer
REPO_S: Final = 40.0  # for all that is asked of a repository
MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
MAX_PAGES: Final = 20
MAX_FILES: Final = 20_000  # in a repository
MAX_CHOICES: Final = 500  # models of a repository among which somebody chooses
MAX_PATH_LEN: Final = 500


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model that can be fetched: the file that is loaded first, its other shards in their order,
    its encoder. `revision`: the commit they are all of."""

    repo: str
    quant: str
    revision: str
    files: tuple[HubFile, ...]
    mmproj: HubFile | None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        beside = self.mmproj.size if self.mmproj else 0
        return sum(file.size for file in self.files) + beside

    def url(self, file: HubFile) -> str:
        """Where the hub serves a file of it."""
        return f"{settings.HUB_URL}/{self.repo}/resolve/{self.revision}/{quote(file.path)}"


@dataclass(frozen=True, slots=True)
class HubChoice:
    """A model of a repository by its first file. `model` None: it can't be fetched, `problem` says
    why."""

    path: str
    quant: str
    model: HubModel | None
    problem: str = ""


@dataclass(frozen=True)
class HubRepo:
    """A repository at its newest commit, and the GGUF files in it, of which there may be many: they
    are gone through once, not for each model."""

    name: str
    revision: str
    files: tuple[HubFile, ...]

    def model(self, main: HubFile) -> HubModel:
        """The model whose first file is `main`.

        Raises:
            InvalidError: a shard is missing, or it is larger than is allowed.
        """
        shards, mmproj = shards_of(main, self._by_path), mmproj_of(main, self._encoders)
        model = HubModel(self.name, main.quant, self.revision, shards, mmproj)
        if model.size > settings.DOWNLOAD_MAX_BYTES:
            raise InvalidError(
                f"the model has {model.size:,} bytes; LLAMAWEB_DOWNLOAD_MAX_BYTES allows "
                f"{settings.DOWNLOAD_MAX_BYTES:,}",
                param="source",
            )
        return model

    @cached_property
    def choices(self) -> list[HubChoice]:
        """All models in it, the smallest first.

        Raises:
            InvalidError: nobody could choose among so many.
        """
        mains = mains_of(self.files)
        if len(mains) > MAX_CHOICES:
            raise InvalidError(
                f"{self.name} has {len(mains):,} models, at most {MAX_CHOICES} are shown; fetch "
                "one by its name, user/repository:QUANT",
                param="source",
            )
        found = [self._choice(main) for main in mains]
        return sorted(found, key=lambda c: (c.model.size if c.model else 2**63, c.path))

    @cached_property
    def _by_path(self) -> dict[str, HubFile]:
        return {file.path: file for file in self.files}

    @cached_property
    def _encoders(self) -> dict[str, HubFile]:
        return encoders_of(self.files)

    def _choice(self, main: HubFile) -> HubChoice:
        try:
            return HubChoice(main.path, main.quant, self.model(main))
        except InvalidError as error:
            return HubChoice(main.path, main.quant, None, error.message)


def is_reference(text: str) -> bool:
    """Whether `text` is user/repo or user/repo:QUANT, not the path of a file."""
    found = REFERENCE_RE.fullmatch(text)
    return found is not None and ".." not in text and not text.lower().endswith(".gguf")


def hub_model(reference: str) -> HubModel:
    """What `user/repo[:QUANT]` means. Asks the hub: takes a second or so, at most `REPO_S`.

    Raises:
        InvalidError: no such repository, model or quantization, or one that needs a token.
        UnreachableError, ForbiddenError: the hub can't be asked.
    """
    reference = reference.strip()
    found = REFERENCE_RE.fullmatch(reference)
    if found is None or not is_reference(reference):
        raise InvalidError("a model of the hub is named user/repository:QUANT", param="source")
    repo = hub_repo(found["repo"])
    return repo.model(choose(repo.files, found["quant"] or "", repo=repo.name))


def hub_repo(name: str) -> HubRepo:
    """What is in `user/repo`. Asks the hub, as `hub_model` does.

    Raises:
        InvalidError: no such repository, or one that needs a token.
        UnreachableError, ForbiddenError: the hub can't be asked.
    """
    if not REPO_RE.fullmatch(name) or ".." in name:
        raise InvalidError("a repository of the hub is named user/repository", param="source")
    ends_ts = time.monotonic() + REPO_S
    try:
        about = _object(ask(f"{settings.HUB_URL}/api/models/{name}", ends_ts)[0])
        if about.get("gated") and not settings.HUB_TOKEN:
            raise refusal(403)
        revision = str(about.get("sha", ""))
        if not REVISION_RE.fullmatch(revision):
            raise UnreachableError("the hub's answer names no revision")
        return HubRepo(name, revision, tuple(_listing(name, revision, ends_ts)))
    except InvalidError as error:
        raise InvalidError(f"{name}: {error.message}", param="source") from error


def hub_headers(url: str) -> dict[str, str]:
    """The token, for an address of the hub itself; nobody else gets it."""
    token = settings.HUB_TOKEN
    hub, asked = check_url(settings.HUB_URL), check_url(url)
    same = (hub.scheme, hub.host, hub.port) == (asked.scheme, asked.host, asked.port)
    return {"Authorization": f"Bearer {token}"} if token and same else {}


def refusal(status: int) -> LlamawebError:
    """What the hub means by a status that isn't 200."""
    if status in (401, 403):
        return InvalidError(
            "it doesn't exist, or its owner lets in only whom they know: set LLAMAWEB_HUB_TOKEN "
            f"to the token of an account that may read it ({status})"
        )
    if status in (404, 410):
        return InvalidError(f"there is no such repository ({status})")
    if status == 429:
        return UnreachableError("the hub has had too many requests from here; try later (429)")
    if status >= 500:
        return UnreachableError(f"the hub is in trouble ({status}); try later")
    return InvalidError(f"the hub answers {status}")


def _listing(repo: str, revision: str, ends_ts: float) -> Iterator[HubFile]:
    """The GGUF files of a repository that have a digest and a name that can be used."""
    url = f"{settings.HUB_URL}/api/models/{repo}/tree/{revision}?recursive=1"
    num_seen = 0
    for _ in range(MAX_PAGES):
        page, url = ask(url, ends_ts)
        if not isinstance(page, list):
            raise UnreachableError("the hub's listing is none")
        num_seen += len(page)
        if num_seen > MAX_FILES:
            raise InvalidError(f"the repository has more than {MAX_FILES:,} files")
        for item in page:
            file = _file(item)
            if file is not None:
                yield file
        if not url:
            return
    raise InvalidError(f"the repository's listing has more than {MAX_PAGES} pages")


def _file(item: Any) -> HubFile | None:
    """A GGUF file, or None: anything else, or one that nobody could check."""
    if not isinstance(item, dict) or item.get("type") != "file":
        return None
    path, lfs = item.get("path"), item.get("lfs")
    if not isinstance(path, str) or not isinstance(lfs, dict) or not _is_harmless(path):
        return None
    digest, size = lfs.get("oid"), lfs.get("size")
    if not isinstance(digest, str) or not SHA256_RE.fullmatch(digest):
        return None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 2**63:
        return None
    return HubFile(path, size, digest)


def _is_harmless(path: str) -> bool:
    """Whether it is the path of a GGUF file that stays in its repository and isn't hidden."""
    if len(path) > MAX_PATH_LEN or not path.isprintable() or "\\" in path:
        return False
    parts = path.split("/")
    return path.lower().endswith(".gguf") and all(p and not p.startswith(".") for p in parts)


def ask(url: str, ends_ts: float = math.inf) -> tuple[Any, str]:
    """The hub's answer, and the address of its next page or ""; it has come by `ends_ts`, within
    `ASK_S` in any case.

    Raises:
        InvalidError: it refuses, or answers too much.
        UnreachableError, ForbiddenError: it can't be asked, or answers nonsense.
    """
    allow, total_s = Allow.of(settings.OUTBOUND_ALLOW), min(ASK_S, ends_ts - time.monotonic())
    if total_s <= 0:
        raise UnreachableError("the hub answers too slowly")
    with fetch(url, allow=allow, total_s=total_s, headers=hub_headers(url)) as response:
        if response.status != 200:
            raise refusal(response.status)
        body = b"".join(response.chunks(max_bytes=MAX_ANSWER_BYTES))
        following = _next_page(url, response)
    try:
        return json.loads(body), following
    except (ValueError, RecursionError) as error:
        raise UnreachableError("the hub's answer is no JSON") from error


def _next_page(url: str, response: Response) -> str:
    found = LINK_RE.search(response.headers.get("link", ""))
    if found is None:
        return ""
    following: str = urljoin(url, found[1])
    if not following.startswith(f"{settings.HUB_URL}/"):
        raise InvalidError("the hub's listing goes on elsewhere")
    return following


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UnreachableError("the hub's answer is none")
    return value
