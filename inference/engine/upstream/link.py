"""How the other server is asked: address, key, bounds."""

from __future__ import annotations

import ipaddress
from typing import Protocol

from inference.engine.upstream.request import OLD_LENGTH
from inference.protocol.spec import UpstreamSpec
from llamaweb.lib.addresses import Allow, Network
from llamaweb.lib.outbound_call import OutboundCall

LOOK_S = 20.0  # for a look at the list of models


class Sent(Protocol):
    """What is sent: `body` to the server's address and `path`; `accept`: the kind of answer."""

    @property
    def generation_id(self) -> str:
        """Of the request."""
        ...

    @property
    def path(self) -> str:
        """Behind the address."""
        ...

    @property
    def accept(self) -> str:
        """A media type."""
        ...

    @property
    def deadline_at(self) -> float:
        """Wall time after which nobody wants it."""
        ...

    def body(self, length_field: str = OLD_LENGTH) -> bytes:
        """JSON text; `length_field`: what the server calls the longest answer."""
        ...


class Link:
    """Makes calls; safe from several threads. `length_field`: what the server turned out to call
    the longest answer."""

    def __init__(self, spec: UpstreamSpec) -> None:
        self._spec = spec
        self._allow = Allow.of(_entry(text) for text in spec.allow)
        self.length_field = OLD_LENGTH

    def post(self, request: Sent, *, total_s: float) -> OutboundCall:
        """The call that answers `request`."""
        return OutboundCall(
            self._url(request.path),
            allow=self._allow,
            headers=self._headers(request.accept) | {"Content-Type": "application/json"},
            idle_s=self._spec.idle_s,
            total_s=total_s,
            body=request.body(self.length_field),
        )

    def models(self) -> OutboundCall:
        """The call for the list of models."""
        return OutboundCall(
            self._url("/models"),
            allow=self._allow,
            headers=self._headers("application/json"),
            idle_s=LOOK_S,
            total_s=LOOK_S,
        )

    def _url(self, path: str) -> str:
        return self._spec.url.rstrip("/") + path

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept}
        if self._spec.key:
            headers["Authorization"] = f"Bearer {self._spec.key}"
        return headers


def _entry(text: str) -> str | Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return text
