"""The database from asynchronous code."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")


def in_database(
    function: Callable[P, R], *, executor: ThreadPoolExecutor | None = None
) -> Callable[P, Awaitable[R]]:
    """`function`, awaitable; it runs in a thread and the thread's pooled connection goes back.

    Without an `executor` it runs in the request's own thread, outside of requests in the one that
    all share.
    Django gives connections back when a request ends. A stream may last for minutes, and each
    would keep one of LLAMAWEB_DATABASE_POOL from the requests that come meanwhile.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        finally:
            _give_back()

    return sync_to_async(call, thread_sensitive=executor is None, executor=executor)


def _give_back() -> None:
    """Not inside a transaction, which would be lost; SQLite has no pool and stays open."""
    is_pooled = bool(connection.settings_dict["OPTIONS"].get("pool"))
    if is_pooled and not connection.in_atomic_block:
        connection.close()
