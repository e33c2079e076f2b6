"""Kinds of environment values: how the text is read and what is allowed, in words."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

LOCALHOST = "localhost"

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off"}
_HOST_RE = re.compile(r"^(\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?|\[[0-9A-Fa-f:.]+\])$")


@dataclass(frozen=True, slots=True)
class Kind:
    """`parse` raises ValueError for anything that isn't `allowed`."""

    parse: Callable[[str], Any]
    allowed: str


def text(allowed: str = "any text", pattern: str = r"(?s).*") -> Kind:
    """A string that matches `pattern` as a whole."""
    return Kind(lambda value: _matching(value, pattern), allowed)


def integer(low: int, high: int) -> Kind:
    """A whole number, bounds included."""
    return Kind(lambda value: _between(int(value), low, high), f"an integer from {low} to {high}")


def decimal(low: float, high: float) -> Kind:
    """A number, bounds included."""
    allowed = f"a number from {low:g} to {high:g}"
    return Kind(lambda value: _between(float(value), low, high), allowed)


def choice(*options: str) -> Kind:
    """One of `options`."""
    return Kind(lambda value: _one_of(value, options), "one of " + ", ".join(options))


def path() -> Kind:
    """A path; relative ones start at the working directory. Stored absolute."""
    return Kind(_path, "a path")


def listing(item: Kind) -> Kind:
    """Comma-separated items, stored as a tuple."""
    return Kind(
        lambda value: tuple(item.parse(part.strip()) for part in value.split(",") if part.strip()),
        f"a comma-separated list, each {item.allowed}",
    )


def _matching(value: str, pattern: str) -> str:
    if not re.fullmatch(pattern, value):
        raise ValueError(value)
    return value


def _between(value: Any, low: float, high: float) -> Any:
    if not low <= value <= high:  # false for nan, too
        raise ValueError(value)
    return value


def _one_of(value: str, options: tuple[str, ...]) -> str:
    if value not in options:
        raise ValueError(value)
    return value


def _path(value: str) -> Path:
    if not value:
        raise ValueError(value)
    return Path(value).expanduser().absolute()


def _flag(value: str) -> bool:
    if value.lower() in _TRUE | _FALSE:
        return value.lower() in _TRUE
    raise ValueError(value)


def _url(value: str, schemes: tuple[str, ...], *, origin: bool) -> str:
    parts = urlsplit(value)
    _ = parts.port  # raises for a bad one
    if parts.scheme not in schemes or not parts.hostname:
        raise ValueError(value)
    if origin and (parts.path.strip("/") or parts.query or parts.fragment or parts.username):
        raise ValueError(value)
    return value.rstrip("/") if origin else value


def _redis_url(value: str) -> str:
    parts = urlsplit(value)
    _ = parts.port
    is_socket = parts.scheme == "unix" and parts.path.startswith("/")
    if not is_socket and (parts.scheme not in ("redis", "rediss") or not parts.hostname):
        raise ValueError(value)
    return value


def _database_url(value: str) -> str:
    parts = urlsplit(value)
    _ = parts.port
    if parts.scheme in ("postgres", "postgresql") and len(parts.path) > 1:
        return value
    if parts.scheme == "sqlite" and not parts.netloc and len(parts.path) > 1:
        return value
    raise ValueError(value)


def _address(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]+", value):
        return str(ipaddress.ip_address(value))
    return value


def _name_or_network(value: str) -> str | Network:
    try:
        return ipaddress.ip_network(value)
    except ValueError:
        name = _matching(value, r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
        if re.fullmatch(r"[0-9.]+", name):  # a mistyped address
            raise
        return name.lower()


FLAG = Kind(_flag, "1, true, yes, on, 0, false, no or off")
HOST_NAME = Kind(
    lambda value: _matching(value, _HOST_RE.pattern),
    "a host name, an address or .example.org for a domain with all below it (never *)",
)
DOTTED_PATH = Kind(
    lambda value: _matching(value, r"(?=.{1,200}$)[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"),
    "a dotted path such as package.module.name",
)
NAME_OR_NETWORK = Kind(
    _name_or_network,
    "a host name, an IP address or a network such as 10.0.0.0/8",
)
LISTEN_ADDRESS = Kind(_address, "an IP address or a host name")
NETWORK = Kind(ipaddress.ip_network, "an IP address or a network such as 10.0.0.0/8")
ORIGIN = Kind(
    lambda value: _url(value, ("http", "https"), origin=True),
    "http://host[:port] or https://host[:port] without a path",
)
ORIGIN_OR_LOCALHOST = Kind(
    lambda value: value if value == LOCALHOST else ORIGIN.parse(value),
    f"{ORIGIN.allowed}, or {LOCALHOST}",
)
REDIS_URL = Kind(
    _redis_url, "redis://host:port/db, rediss://host:port/db or unix:///path/to/socket"
)
DATABASE_URL = Kind(
    _database_url, "postgresql://user:password@host:port/name or sqlite:////path/to/file"
)
ROUTE = text("a path such as /predict", r"/[A-Za-z0-9._~:/-]{1,512}")
EMAIL_URL = Kind(
    lambda value: _url(value, ("smtp", "smtp+tls", "smtp+ssl"), origin=False),
    "smtp://user:password@host:port, with smtp+tls:// or smtp+ssl:// for encryption",
)
SECRET = text("at least 16 printable characters without spaces", r"[!-~]{16,}")
