"""Where in a request something stands."""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias
from urllib.parse import unquote

Keys: TypeAlias = tuple[str | int, ...]
MAX_KEY_CHARS = 200  # shown of each name
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")


def path_of(param: str, keys: Keys) -> str:
    """`keys` below `param`: "json_schema.properties.age", "json_schema.anyOf[1]"."""
    return param + "".join(map(_step, keys))


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if len(key) > MAX_KEY_CHARS:
        key = f"{key[:MAX_KEY_CHARS]}…"
    return f".{key}" if _PLAIN.fullmatch(key) else f"[{json.dumps(key, ensure_ascii=False)}]"


def reference_keys(reference: str) -> Keys | None:
    """The keys of a `$ref` that is a JSON pointer within its schema; None: it isn't one. Source:
    RFC 6901, section 6."""
    pointer = unquote(reference.removeprefix("#"))
    if not reference.startswith("#") or (pointer and not pointer.startswith("/")):
        return None
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:])


def target_of(document: Any, keys: Keys) -> tuple[Any, Keys]:
    """What stands at `keys`, and the keys with places of lists as numbers.

    Raises:
        LookupError: there is nothing.
    """
    found: list[str | int] = []
    for key in keys:
        if isinstance(document, list):
            if not str(key).isascii() or not str(key).isdigit() or len(str(key)) > 6:
                raise LookupError(key)
            key = int(key)
        elif not isinstance(document, dict):
            raise LookupError(key)
        document = document[key]
        found.append(key)
    return document, tuple(found)
