"""Clients that stay open until the server of their module ends, and not until the garbage collector
finds them: it complains of their sockets, in whatever test runs then."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

C = TypeVar("C", bound=AbstractContextManager[Any, Any])

_opened = ExitStack()


def opened(client: C) -> C:
    """`client`, which `close_all` closes."""
    _opened.enter_context(client)
    return client


def close_all() -> None:
    """Close what was opened."""
    _opened.close()
