"""Which addresses may be connected to on behalf of somebody: the public ones and the exempted."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
# Special ones of IANA's registries that Python's tables don't know, or not in every release.
SPECIAL: Final = tuple(
    ipaddress.ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "3fff::/20", "5f00::/16")
)


@dataclass(frozen=True, slots=True)
class Allow:
    """What an administrator exempts: names (exactly, whatever they resolve to) and networks."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str | Network]) -> Allow:
        """From the values of LLAMAWEB_OUTBOUND_ALLOW."""
        entries = tuple(entries)
        return cls(
            names=frozenset(e.rstrip(".").lower() for e in entries if isinstance(e, str)),
            networks=tuple(e for e in entries if not isinstance(e, str)),
        )

    def permits(self, host: str, address: Address) -> bool:
        """Whether a connection to `host` at `address` may be made."""
        if host.rstrip(".").lower() in self.names or is_public(address):
            return True
        return any(address.version == n.version and address in n for n in self.networks)


def is_public(address: Address) -> bool:
    """Whether anybody on the Internet could reach `address`; looks into IPv4-in-IPv6 forms."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.is_site_local or address.teredo is not None:
            return False
    if any(address.version == network.version and address in network for network in SPECIAL):
        return False
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified
    )
