"""Connections of the outbound client: to checked addresses only, and none outlives its time."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import socket
import ssl
import time
from collections.abc import Iterable
from typing import Any, Final

import httpcore2
import httpx2

from llamaweb.lib.addresses import Address, Allow

MAX_ADDRESSES: Final = 16  # of one name


class CheckedTransport(httpx2.HTTPTransport):
    """The usual transport, whose connections are made by `CheckedBackend`."""

    def __init__(self, backend: CheckedBackend) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=_ssl_context(),
            max_connections=1,
            max_keepalive_connections=0,
            network_backend=backend,
        )


@functools.cache
def _ssl_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context(verify=True, trust_env=True)


class Refused(httpcore2.ConnectError):
    """Carries the reason through the client's own errors."""


class CheckedBackend(httpcore2.SyncBackend):
    """Connects to a checked address; TLS still asks for the name. Nothing waits past `ends_ts`."""

    def __init__(self, allow: Allow) -> None:
        super().__init__()
        self._allow = allow
        self.stream: httpcore2.NetworkStream | None = None  # the one that is open
        self.ends_ts = 0.0

    def cut(self) -> None:
        """End the connection now, from any thread: whoever waits on it gets an error at once."""
        self.ends_ts = 0.0  # first: a connection that is being made meets it with its first byte
        sock = None if self.stream is None else self.stream.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                # The plain socket's: TLS would take its own state apart under the reader.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def left_s(self, timeout: float | None) -> float:
        """What of `timeout` lies before the end.

        Raises:
            ReadTimeout: nothing.
        """
        left = self.ends_ts - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout("out of time")
        return left if timeout is None else min(left, timeout)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        """See the class."""
        last: Exception | None = None
        for address in self._checked(host, port):
            try:
                stream = super().connect_tcp(
                    str(address), port, self.left_s(timeout), local_address, socket_options
                )
                return _TimedStream(stream, self)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                last = error
        raise last or httpcore2.ConnectError("the name has no address")

    def connect_unix_socket(self, *_args: Any, **_kwargs: Any) -> httpcore2.NetworkStream:
        """Never."""
        raise Refused("sockets of this machine are not for fetching")

    def _checked(self, host: str, port: int) -> list[Address]:
        """All addresses of `host`: one that is refused refuses the name."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError("the name can't be resolved") from error
        names = dict.fromkeys(str(item[4][0]).partition("%")[0] for item in found)
        addresses = [ipaddress.ip_address(name) for name in names][:MAX_ADDRESSES]
        for address in addresses:
            if not self._allow.permits(host, address):
                raise Refused(
                    f"{host[:100]} is at an address that isn't public; "
                    "LLAMAWEB_OUTBOUND_ALLOW can exempt it"
                )
        return addresses


class _TimedStream(httpcore2.NetworkStream):
    """A connection on which a server that sends a byte now and then can't keep us for ever."""

    def __init__(self, stream: httpcore2.NetworkStream, backend: CheckedBackend) -> None:
        self._stream = stream
        self._backend = backend
        backend.stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Some bytes, or none at the end."""
        return self._stream.read(max_bytes, self._backend.left_s(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """All of `buffer`."""
        self._stream.write(buffer, self._backend.left_s(timeout))

    def close(self) -> None:
        """End the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """The same, encrypted."""
        limit = self._backend.left_s(timeout)
        stream = self._stream.start_tls(ssl_context, server_hostname, limit)
        return _TimedStream(stream, self._backend)

    def get_extra_info(self, info: str) -> Any:
        """Of the connection below."""
        return self._stream.get_extra_info(info)
