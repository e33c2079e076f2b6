"""Fetching one file over HTTP into a partial file: goes on by Range, tries again, keeps bounds."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Protocol

from django.conf import settings

from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.header import MAGIC
from llamaweb.lib.addresses import Allow
from llamaweb.lib.errors import FailedError, InvalidError, LlamawebError
from llamaweb.lib.outbound import Response, UnreachableError, fetch

READ_BYTES = 1024 * 1024
MAX_TRIES = 6  # in a row that bring less than PROGRESS_BYTES
PROGRESS_BYTES = 1024 * 1024
TRY_S = 24 * 3600.0
BACK_OFF_S = (1.0, 2.0, 5.0, 10.0, 20.0)
RANGE_RE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
ETAG_RE = re.compile(r'"[\x21\x23-\x7e]{1,250}"')  # strong ones only
MAX_RETRY_AFTER_S = 300.0
TRANSIENT = (408, 425, 429, 500, 502, 503, 504)


class Stream(Protocol):
    """An unbuffered file."""

    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def read(self, size: int = -1, /) -> bytes | None: ...
    def write(self, data: bytes, /) -> int | None: ...
    def truncate(self, size: int | None = None, /) -> int: ...
    def fileno(self) -> int: ...


class Part:
    """What there is of a file, with its digest so far."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.size = 0

    def keep(self, num_bytes: int, note: Callable[[], None]) -> None:
        """Begin with at most `num_bytes` of what is there; the rest may not be on the disk."""
        self.restart(truncate=False)
        while self.size < num_bytes:
            data = self._stream.read(min(READ_BYTES, num_bytes - self.size))
            if not data:
                break
            self.digest.update(data)
            self.size += len(data)
            note()
        self._stream.truncate(self.size)
        self._stream.seek(self.size)

    def restart(self, *, truncate: bool = True) -> None:
        """Begin with nothing."""
        self.digest, self.size = hashlib.sha256(), 0
        self._stream.seek(0)
        if truncate:
            self._stream.truncate(0)

    def write(self, data: bytes) -> None:
        """Add `data`; refuses at once what can't be a model."""
        if self.size < len(MAGIC) <= self.size + len(data):
            self._check_magic(data)
        view = memoryview(data)
        while view:
            view = view[self._stream.write(bytes(view)) or 0 :]
        self.digest.update(data)
        self.size += len(data)

    def sync(self) -> None:
        """Have it on the disk for sure."""
        os.fdatasync(self._stream.fileno())

    def _check_magic(self, data: bytes) -> None:
        self._stream.seek(0)
        start = (self._stream.read(self.size) or b"") + data if self.size else data
        self._stream.seek(self.size)
        if not start.startswith(MAGIC):
            raise GgufError("what the server sends is not a GGUF file")


class Fetcher:
    """Brings `part` to its end.

    Args:
        etag: what the source called the version that `part` holds a piece of.
        expected: whether a digest will tell a wrong piece, so that any may be gone on with.
        expected_size: bytes of the whole file, if somebody else said.
        headers: to be sent with each request.
        note: called with every piece, knows what of it to write down, and ends the work by raising.
        pause: waits that many seconds, calling `note` meanwhile.
    """

    def __init__(
        self,
        url: str,
        part: Part,
        *,
        etag: str,
        expected: bool,
        expected_size: int | None,
        headers: Mapping[str, str],
        note: Callable[[], None],
        pause: Callable[[float], None],
    ) -> None:
        self._url = url
        self._part = part
        self.etag = etag
        self.total: int | None = None
        self._expected = expected
        self._expected_size = expected_size
        self._headers = dict(headers)
        self._wait_s = 0.0  # what the server asks for
        self._note = note
        self._pause = pause
        self._allow = Allow.of(settings.OUTBOUND_ALLOW)

    def run(self) -> None:
        """Until the file is whole.

        Raises:
            LlamawebError: it can't be had; the message says why.
        """
        tries = 0
        while True:
            before = self._part.size
            try:
                if self._try():
                    return
                reason = "the server closed the connection too early"
            except UnreachableError as error:
                reason = error.message
            tries = 0 if self._part.size - before >= PROGRESS_BYTES else tries + 1
            if tries >= MAX_TRIES:
                raise UnreachableError(f"{reason} ({tries} tries)")
            back_off_s = BACK_OFF_S[min(tries, len(BACK_OFF_S)) - 1]
            self._wait_s, asked_s = 0.0, self._wait_s
            self._pause(max(back_off_s, asked_s))

    def _try(self) -> bool:
        """One request; whether the file is whole now."""
        going_on = self._range_headers()
        if not going_on and self._part.size:
            self._part.restart()
        headers = self._headers | going_on
        with fetch(self._url, allow=self._allow, total_s=TRY_S, headers=headers) as response:
            if not self._begin(response):
                return False
            limit = settings.DOWNLOAD_MAX_BYTES - self._part.size
            for chunk in response.chunks(max_bytes=limit):
                self._part.write(chunk)
                if self.total is not None and self._part.size > self.total:
                    raise InvalidError("the server sends more than it said")
                self._note()
        return self.total is None or self._part.size == self.total

    def _range_headers(self) -> dict[str, str]:
        """To go on, if a changed file would be noticed; else none."""
        if not self._part.size or not (self.etag or self._expected):
            return {}
        headers = {"Range": f"bytes={self._part.size}-"}
        return headers | ({"If-Range": self.etag} if self.etag else {})

    def _begin(self, response: Response) -> bool:
        """Look at the head of an answer. False: try again from the start."""
        if response.headers.get("content-encoding", "identity") != "identity":
            raise InvalidError("the server sends the file encoded")
        if response.status == 206 and self._part.size:
            if not self._is_rest(response.headers):
                self._forget()
                return False
        elif response.status == 200:
            self._part.restart()
            self.total = _length(response.headers)
            self.etag = _etag(response.headers)
        elif response.status == 416 and self._part.size:
            self._forget()
            return False
        else:
            raise self._refusal(response)
        if self.total is not None and self.total > settings.DOWNLOAD_MAX_BYTES:
            raise InvalidError(
                f"the file has {self.total:,} bytes; LLAMAWEB_DOWNLOAD_MAX_BYTES allows "
                f"{settings.DOWNLOAD_MAX_BYTES:,}"
            )
        if self._expected_size is not None and self.total not in (None, self._expected_size):
            raise InvalidError(
                f"the server has a file of {self.total:,} bytes, not {self._expected_size:,}"
            )
        self._note()
        return True

    def _refusal(self, response: Response) -> LlamawebError:
        """What another status means; a piece that is there is worth another try later."""
        message = f"the server answers {response.status}"
        if response.status in TRANSIENT:
            self._wait_s = _retry_after_s(response.headers)
            return UnreachableError(message)
        if response.status in (401, 403):
            message += ": it lets in only whom it knows (LLAMAWEB_HUB_TOKEN is for the hub)"
        return FailedError(message) if self._part.size else InvalidError(message)

    def _is_rest(self, headers: Mapping[str, str]) -> bool:
        """Whether a partial answer goes on exactly where we are, with the same file."""
        found = RANGE_RE.fullmatch(headers.get("content-range", "").strip())
        if found is None or int(found[1]) != self._part.size:
            return False
        if self.etag and _etag(headers) not in ("", self.etag):
            return False
        self.total = None if found[3] == "*" else int(found[3])
        return True

    def _forget(self) -> None:
        self._part.restart()
        self.etag, self.total = "", None


def _retry_after_s(headers: Mapping[str, str]) -> float:
    text = headers.get("retry-after", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    return min(float(text), MAX_RETRY_AFTER_S) if is_number else 0.0


def _length(headers: Mapping[str, str]) -> int | None:
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _etag(headers: Mapping[str, str]) -> str:
    text = headers.get("etag", "")
    return text if ETAG_RE.fullmatch(text) else ""
