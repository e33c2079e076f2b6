"""Where a request has the schemas of its tools; engines name them as they got them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from llamaweb.lib.errors import InvalidError

_SCHEMA: Final = re.compile(r"tools\[(\d+)\]\.function\.parameters")


@contextlib.contextmanager
def schemas_at(places: Callable[[], Sequence[str]]) -> Iterator[None]:
    """Let errors from within name the schemas of tools as the request does. `places`: their paths,
    one a tool that was offered, in the order in which the engine got them; asked for if need be."""
    try:
        yield
    except InvalidError as error:
        found = _SCHEMA.match(error.param or "")
        if found is not None and error.param is not None:
            place = dict(enumerate(places())).get(int(found[1]), found[0])
            error.param = f"{place}{error.param[found.end() :]}"
        raise
