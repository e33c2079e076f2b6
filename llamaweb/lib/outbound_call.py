"""One call to a server that an administrator names: the answer is read as it comes, and whoever
waits for it can be interrupted.

As `outbound.fetch`, but a redirect is refused: a key and a prompt go to the address that was named
and nowhere else.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping

import httpx2

from llamaweb.lib.addresses import Allow
from llamaweb.lib.checked_transport import CheckedBackend, CheckedTransport, Refused
from llamaweb.lib.errors import DeadlineError, InvalidError
from llamaweb.lib.outbound import (
    CONNECT_S,
    REDIRECTS,
    USER_AGENT,
    RefusedAddressError,
    UnreachableError,
    check_url,
)


class RedirectedError(InvalidError):
    """The server wants to be asked at another address."""


class SilentError(UnreachableError):
    """The server took the request and said nothing for too long."""


class Answer:
    """A status and the headers; `pieces` is the body as it comes."""

    def __init__(self, call: OutboundCall, response: httpx2.Response) -> None:
        self._call = call
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def pieces(self) -> Iterator[bytes]:
        """The body; whoever reads it bounds its length. Raises as `OutboundCall.open`."""
        try:
            yield from self._response.iter_raw()
        except httpx2.HTTPError as error:
            raise self._call.error_of(error) from error

    def start(self, max_bytes: int) -> bytes:
        """The first bytes of the body, as many as there are."""
        held = b""
        for piece in self.pieces():
            held += piece
            if len(held) >= max_bytes:
                break
        return held[:max_bytes]


class OutboundCall:
    """A GET, or a POST of `body`. `idle_s`: the longest silence; `total_s`: until all is read.

    `cut` may be called from any thread at any time, everything else from one.
    """

    def __init__(
        self,
        url: str,
        *,
        allow: Allow,
        headers: Mapping[str, str],
        idle_s: float,
        total_s: float,
        body: bytes | None = None,
    ) -> None:
        self._url = url
        self._headers = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT, **headers}
        self._body = body
        self._idle_s = idle_s
        self._backend = CheckedBackend(allow)
        self._ends_ts = self._backend.ends_ts = time.monotonic() + total_s
        self.is_cut = False

    @contextlib.contextmanager
    def open(self) -> Iterator[Answer]:
        """Ask; the answer is read inside the block.

        Raises:
            InvalidError: not an address that can be asked.
            RedirectedError: a redirect.
            RefusedAddressError: the address isn't public, and nobody exempted it.
            UnreachableError: no answer, a broken one, or it was cut.
            SilentError: silence for `idle_s`.
            DeadlineError: `total_s` are over.
        """
        target = check_url(self._url)
        method = "GET" if self._body is None else "POST"
        with self._client() as client:
            request = client.build_request(
                method, target, headers=self._headers, content=self._body
            )
            try:
                response = client.send(request, stream=True, follow_redirects=False)
            except httpx2.HTTPError as error:
                raise self.error_of(error) from error
            except Refused as error:
                raise RefusedAddressError(str(error)) from None
            try:
                if response.status_code in REDIRECTS:
                    raise RedirectedError("the server redirects to another address", param="url")
                yield Answer(self, response)
            finally:
                response.close()

    def cut(self) -> None:
        """End it now: whoever waits for the answer gets an UnreachableError at once."""
        self.is_cut = True
        self._backend.cut()

    def hurry(self, within_s: float) -> None:
        """What is still to come has to come within that time."""
        self._backend.ends_ts = min(self._backend.ends_ts, time.monotonic() + within_s)

    def error_of(self, error: httpx2.HTTPError) -> Exception:
        """What a failure of the connection means to the caller."""
        if isinstance(error.__cause__, Refused):
            return RefusedAddressError(str(error.__cause__))
        if not self.is_cut and time.monotonic() >= self._ends_ts:
            return DeadlineError("there was no more time for the answer")
        if isinstance(error, httpx2.ReadTimeout):
            return SilentError("the server was silent for too long")
        return UnreachableError("the server can't be reached, or the connection broke off")

    def _client(self) -> httpx2.Client:
        return httpx2.Client(
            transport=CheckedTransport(self._backend),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(self._idle_s, connect=CONNECT_S),
        )
