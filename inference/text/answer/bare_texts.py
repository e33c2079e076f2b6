"""Which texts a schema allows where a model writes them bare, without quotes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inference.text.answer.references import resolved

MAX_STEPS = 64  # references and alternatives that are followed


def bare_texts(schema: Any, root: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The texts that `schema`, a part of `root`, names one by one; none where it allows no text;
    None: any, as far as can be told."""
    return _Looking(root).at(schema)


class _Looking:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MAX_STEPS

    def at(self, schema: Any) -> tuple[str, ...] | None:
        self._left -= 1
        if not isinstance(schema, Mapping) or self._left < 0:
            return None
        enum = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(enum, list):
            return tuple(text for text in enum if isinstance(text, str))
        types = schema.get("type")
        if isinstance(types, str | list) and "string" not in types:
            return ()
        if isinstance(schema.get("$ref"), str):
            return self.at(resolved(schema["$ref"], self._root))
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list):
                return self._of_any(schema[word])
        return None

    def _of_any(self, options: list[Any]) -> tuple[str, ...] | None:
        found: list[str] = []
        for option in options:
            texts = self.at(option)
            if texts is None:
                return None
            found += texts
        return tuple(dict.fromkeys(found))
