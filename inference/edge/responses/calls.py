"""Tools in their clients' terms, and as the model sees them: all are functions there, a namespace
is a part of their names, and a tool that takes free text has it as its one argument."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from inference.text.prompts import valid_text

MAX_JOINED_CHARS: Final = 64  # what other servers allow; models copy short names more reliably
SEPARATOR: Final = "__"
HASH_CHARS: Final = 8
INPUT: Final = "input"  # the one argument of a tool that takes text


@dataclass(frozen=True, slots=True)
class ToolRef:
    """A tool as its client calls it. `is_custom`: it takes free text, no JSON."""

    name: str
    namespace: str = ""
    is_custom: bool = False

    @property
    def offered(self) -> str:
        """Its name for the model. One that could be split in another way, or is long, ends with a
        hash, so no two are the same."""
        if not self.namespace:
            return self.name
        joined = f"{self.namespace}{SEPARATOR}{self.name}"
        head, _, tail = joined.rpartition(SEPARATOR)
        if len(joined) <= MAX_JOINED_CHARS and (head, tail) == (self.namespace, self.name):
            return joined
        both = json.dumps([self.namespace, self.name]).encode()
        end = f"_{hashlib.sha256(both).hexdigest()[:HASH_CHARS]}"
        return joined[: MAX_JOINED_CHARS - len(end)] + end


def text_schema(grammar: str) -> dict[str, Any]:
    """The parameters of a tool that takes text; `grammar` says in words how it has to look."""
    text = {"type": "string", **({"description": grammar} if grammar else {})}
    return {
        "type": "object",
        "properties": {INPUT: text},
        "required": [INPUT],
        "additionalProperties": False,
    }


def text_given(arguments: str) -> str:
    """The text in a whole call's arguments; all of them where a model wrote it as it is."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = given.get(INPUT) if isinstance(given, dict) else None
    # An escape can stand for half a character, which no encoding has.
    return valid_text(text) if isinstance(text, str) else arguments
