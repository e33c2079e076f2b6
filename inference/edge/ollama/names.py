"""Names of models as Ollama's clients write them: with a tag behind them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from llamaweb.lib.errors import NotFoundError

DEFAULT_TAG: Final = ":latest"

T = TypeVar("T")


async def by_name(name: str | None, find: Callable[[str | None], Awaitable[T]]) -> T:
    """What `find` finds by `name`, or by the name without the tag that clients put behind every
    one.

    Raises:
        NotFoundError: neither exists; with the name that was asked for.
    """
    try:
        return await find(name)
    except NotFoundError:
        if name is None or not name.endswith(DEFAULT_TAG):
            raise
        try:
            return await find(name.removesuffix(DEFAULT_TAG))
        except NotFoundError:
            pass
        raise
