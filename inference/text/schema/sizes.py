"""How much there is to read in a schema, however often it is referred to."""

from __future__ import annotations

import json
from typing import Any

from inference.text.schema.keywords import MAPS

# Keywords whose values may be long.
LONG = ("enum", "const", "required", "pattern", "type", "$ref")


def own_chars(schema: dict[str, Any]) -> int:
    """About how many characters `schema` has itself: without the schemas in it, which are read on
    their own, and values of words that say nothing."""
    num_chars = len(schema)
    for name in LONG:
        if name in schema:
            num_chars += len(json.dumps(schema[name], ensure_ascii=False))
    for name in MAPS:
        if isinstance(named := schema.get(name), dict):
            num_chars += sum(map(len, named))
    return num_chars
