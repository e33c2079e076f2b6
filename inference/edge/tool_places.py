"""Where a request has the schemas of its tools; engines name them as they got them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from llamaweb.lib.errors import InvalidError, LlamawebError

_SCHEMA: Final = re.compile(r"tools\[(\d+)\]\.function\.parameters")


def placed(error: LlamawebError, places: Sequence[str]) -> LlamawebError:
    """`error`, which tells how a generation ended, naming the schema of a tool as the request does.
    `places`: their paths, one a tool that was offered, in order; none: engines name them so, too.
    """
    if isinstance(error, InvalidError) and error.param is not None:
        found = _SCHEMA.match(error.param)
        if found is not None and int(found[1]) < len(places):
            error.param = f"{places[int(found[1])]}{error.param[found.end() :]}"
    return error
