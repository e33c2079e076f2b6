"""The one HTTP client for addresses that a person, a model or a file names.

A name is resolved once a connection, every address it has is checked, and the connection goes to a
checked address: what the name says afterwards (DNS rebinding) changes nothing. Each redirect is a
request of its own and checked again. Refused are all addresses that aren't public, but those that
an administrator exempts. No proxies, no cookies, no compression, nothing from the environment.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Final

import httpx2

from llamaweb.lib.addresses import Allow
from llamaweb.lib.checked_transport import CheckedBackend, CheckedTransport, Refused
from llamaweb.lib.errors import FailedError, ForbiddenError, InvalidError

MAX_URL_LEN: Final = 2048
MAX_REDIRECTS: Final = 5
CONNECT_S: Final = 10.0
READ_S: Final = 30.0  # the longest silence
HEADERS_S: Final = 60.0  # until an answer begins
SLOW_AFTER_S: Final = 60.0
SLOW_BYTES: Final = 64 * 1024  # less than that in SLOW_AFTER_S is given up
REDIRECTS: Final = (301, 302, 303, 307, 308)
USER_AGENT: Final = "llamaweb"

# It would write a line a request, with the whole address and what is secret in it.
logging.getLogger("httpx2").setLevel(logging.WARNING)


class RefusedAddressError(ForbiddenError):
    """The address isn't public, and nobody exempted it."""


class UnreachableError(FailedError):
    """No or a broken answer; the same request may work later."""


def check_url(url: str) -> httpx2.URL:
    """`url`, parsed.

    Raises:
        InvalidError: not an http or https address of a host, or with a password in it.
    """
    if len(url) > MAX_URL_LEN or not url.isprintable() or " " in url or "\\" in url:
        raise InvalidError("this is not an address (URL) that can be fetched", param="url")
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError, UnicodeError) as error:
        raise InvalidError("this is not an address (URL)", param="url") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InvalidError("the address must begin with https:// or http://", param="url")
    if parsed.port is not None and not 0 < parsed.port < 65536:
        raise InvalidError("the address has a port that can't be", param="url")
    if parsed.userinfo:
        raise InvalidError("the address must not hold a user or password", param="url")
    return parsed


class Response:
    """An answer whose body hasn't been read."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def chunks(self, *, max_bytes: int) -> Iterator[bytes]:
        """The body, piece by piece as it comes.

        Raises:
            UnreachableError: it broke off, or trickles.
            InvalidError: it has more than `max_bytes`.
        """
        since_ts, num, total = time.monotonic(), 0, 0
        try:
            for chunk in self._response.iter_raw():
                total += len(chunk)
                if total > max_bytes:
                    raise InvalidError(f"the answer has more than {max_bytes:,} bytes")
                yield chunk
                num += len(chunk)
                if time.monotonic() - since_ts > SLOW_AFTER_S:
                    if num < SLOW_BYTES:
                        raise UnreachableError("the server sends too slowly")
                    since_ts, num = time.monotonic(), 0
        except httpx2.HTTPError as error:
            raise UnreachableError("the connection broke off") from error


@contextlib.contextmanager
def fetch(
    url: str, *, allow: Allow, total_s: float, headers: Mapping[str, str] | None = None
) -> Iterator[Response]:
    """GET `url`, following redirects; the body is read inside the block, all within `total_s`.

    Raises:
        InvalidError: not an address that can be fetched, or redirected to one, or too often.
        RefusedAddressError: the address, or one redirected to, isn't public.
        UnreachableError: no answer.
    """
    target = check_url(url)
    sent = {"Accept-Encoding": "identity", "User-Agent": USER_AGENT, **(headers or {})}
    backend = CheckedBackend(allow)
    ends_ts = time.monotonic() + total_s
    with _client(backend) as client:
        for _ in range(MAX_REDIRECTS + 1):
            backend.ends_ts = min(ends_ts, time.monotonic() + HEADERS_S)
            with _stream(client, target, sent) as response:
                if response.status_code not in REDIRECTS:
                    backend.ends_ts = ends_ts
                    yield Response(response)
                    return
                found = _next(target, response)
                if _origin(found) != _origin(target):
                    sent.pop("Authorization", None)  # meant for the one that was asked
                target = found
        raise InvalidError(f"the address redirects more than {MAX_REDIRECTS} times", param="url")


@contextlib.contextmanager
def _stream(
    client: httpx2.Client, target: httpx2.URL, headers: Mapping[str, str]
) -> Iterator[httpx2.Response]:
    request = client.build_request("GET", target, headers=dict(headers))
    try:
        response = client.send(request, stream=True, follow_redirects=False)
    except httpx2.HTTPError as error:
        if isinstance(error.__cause__, Refused):
            raise RefusedAddressError(str(error.__cause__)) from None
        raise UnreachableError("the server can't be reached") from error
    except Refused as error:
        raise RefusedAddressError(str(error)) from None
    try:
        yield response
    finally:
        response.close()


def _next(target: httpx2.URL, response: httpx2.Response) -> httpx2.URL:
    """Where a redirect leads."""
    location = response.headers.get("location", "")
    try:
        found = check_url(str(target.join(location)))
    except (httpx2.InvalidURL, ValueError) as error:
        raise InvalidError("the server redirects to no address", param="url") from error
    if target.scheme == "https" and found.scheme != "https":
        raise InvalidError("the server redirects from https to http", param="url")
    return found


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _client(backend: CheckedBackend) -> httpx2.Client:
    return httpx2.Client(
        transport=CheckedTransport(backend),
        trust_env=False,
        follow_redirects=False,
        timeout=httpx2.Timeout(READ_S, connect=CONNECT_S),
    )
