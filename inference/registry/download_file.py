"""One file of a download: fetched into its piece, then looked at."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

from inference.models import ModelFile
from inference.registry.download_fetch import Fetcher, Part, Stream
from inference.registry.download_place import final_path
from inference.registry.files import Role, check_alone
from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.header import GgufHeader
from inference.registry.gguf.process import read_header
from inference.registry.hub import hub_headers
from inference.registry.model_sets import FoundFile, assemble
from llamaweb.lib.errors import InvalidError

UPLOADED: Final = "upload:///"  # begins the source of a file that somebody sent


class FileWork:
    """A file on its way. `note` and `pause`: see `Fetcher`; `alive`: called while nothing comes."""

    def __init__(
        self,
        row: ModelFile,
        stream: Stream,
        *,
        note: Callable[[], None],
        pause: Callable[[float], None],
    ) -> None:
        self.row = row
        self.part = Part(stream)
        self._is_upload = row.source_url.startswith(UPLOADED)
        self._fetcher = Fetcher(
            row.source_url,
            self.part,
            etag=row.etag,
            expected=bool(row.expected_sha256),
            expected_size=row.expected_size,
            headers={} if self._is_upload else hub_headers(row.source_url),
            note=note,
            pause=pause,
        )

    @property
    def total(self) -> int | None:
        """Bytes it has when it is whole, if anybody said."""
        return self._fetcher.total or self.row.expected_size

    def bring(self, alive: Callable[[], None]) -> str:
        """Fetch what is missing; returns the digest of all."""
        self.part.keep(self.row.bytes_done, alive)
        if not (self.row.size and self.part.size == self.row.size):
            if self._is_upload:
                raise InvalidError("what was uploaded isn't there any more; upload it again")
            self._fetcher.run()
        self.part.sync()
        return self.part.digest.hexdigest()

    def values(self) -> dict[str, Any]:
        """What its row says of what is on the disk."""
        values: dict[str, Any] = {"bytes_done": self.part.size, "etag": self._fetcher.etag}
        return values | ({} if self.total is None else {"size": self.total})


def digest_check(row: ModelFile, digest: str, size: int) -> None:
    """Whether it is, byte for byte, what was asked for.

    Raises:
        InvalidError: it isn't.
    """
    if row.expected_size is not None and size != row.expected_size:
        raise InvalidError(
            f"the file has {size:,} bytes, not {row.expected_size:,}; it was thrown away"
        )
    if row.expected_sha256 and digest != row.expected_sha256:
        raise InvalidError(f"the file has another SHA-256 ({digest}); it was thrown away")


def header_of(path: Path, row: ModelFile, *, num_shards: int) -> GgufHeader:
    """The header of a file that has to be what its row says.

    Raises:
        InvalidError: it is damaged, or something else.
    """
    try:
        header = read_header(path)
        facts = header.facts
        if row.role in (Role.SHARD, Role.MMPROJ):
            if facts.kind != row.role:
                raise GgufError(f"this is no {Role(row.role).label}")
        else:
            check_alone(facts)
            if facts.split.count != num_shards:
                raise GgufError(f"this is one of {facts.split.count} files of a model")
    except GgufError as error:
        raise InvalidError(f"{error.message}; it was thrown away") from error
    return header


def set_check(rows: Sequence[ModelFile], headers: Sequence[GgufHeader]) -> None:
    """Whether files make one model.

    Raises:
        InvalidError: they don't belong together.
    """
    names = [final_path(row).name for row in rows]
    found = {
        name: FoundFile(PurePosixPath(name), header.facts)
        for name, header in zip(names, headers, strict=True)
    }
    problem = assemble(found[names[0]], found, label="").problem
    if problem:
        raise InvalidError(f"{problem}; all of it was thrown away")


@contextlib.contextmanager
def opened_piece(path: Path) -> Iterator[Stream]:
    """A piece, open for reading and writing; made when there is none."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as stream:
        yield stream
