"""The tools a request offers, and what types their parameters have.

Formats without types write every value as bare text; the schema says whether `7` is a number or a
string. Where it leaves that open, what is JSON is JSON, and the rest is a string.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inference.text.answer.cursor import NotThisError, Take
from inference.text.answer.references import resolved
from inference.text.answer.values import (
    PYTHON,
    PYTHON_CONSTANTS,
    quoted,
    whole_value,
)
from inference.text.depth import MAX_DEPTH, is_deep

MAX_LOOKED_AT = 2000  # schemas and values of enums, for the types of one parameter
MAX_UNTYPED_CHARS = 65_536  # a longer value is a string, whatever its schema says
TYPES = frozenset({"string", "number", "integer", "boolean", "null", "object", "array"})
STRING = frozenset({"string"})


@dataclass(frozen=True)
class Tool:
    """A function the model may call; `parameters` is its JSON schema, or None. `is_strict`: a call
    that is forced follows all of it."""

    name: str
    parameters: Mapping[str, Any] | None = None
    is_strict: bool = False

    def types(self, parameter: str) -> frozenset[str]:
        """JSON types that `parameter` may have; empty: the schema doesn't say."""
        schema = self.parameters or {}
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return frozenset()
        return _Types(schema).of(properties.get(parameter))

    def knows(self, parameter: str) -> bool:
        """Whether the schema names `parameter`."""
        properties = (self.parameters or {}).get("properties")
        return isinstance(properties, Mapping) and parameter in properties


@dataclass(frozen=True)
class Tools:
    """The tools of a request by name."""

    by_name: Mapping[str, Tool] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> Tools:
        """These tools; of two of one name the first counts."""
        by_name: dict[str, Tool] = {}
        for tool in tools:
            by_name.setdefault(tool.name, tool)
        return cls(by_name)

    @functools.cached_property
    def longest_name(self) -> int:
        """Length of the longest name, in characters."""
        return max(map(len, self.by_name), default=0)

    def find(self, name: str) -> Tool:
        """The tool that a model means by `name`.

        Raises:
            NotThisError: there is none.
        """
        for spelling in (name, name.removeprefix("functions."), name.removesuffix(".call")):
            if spelling in self.by_name:
                return self.by_name[spelling]
        raise NotThisError


def tools_of(definitions: Sequence[Any]) -> list[Tool]:
    """Tools of definitions in OpenAI's form; what isn't one is left out."""
    tools = []
    for definition in definitions:
        function = definition.get("function", definition) if isinstance(definition, dict) else {}
        name = function.get("name") if isinstance(function, dict) else None
        if isinstance(name, str) and name:
            parameters = function.get("parameters")
            schema = parameters if isinstance(parameters, dict) else None
            tools.append(Tool(name, schema, function.get("strict") is True))
    return tools


class _Types:
    """Looks for the types that a schema allows: at each definition once, and at so much of it that
    definitions which name each other many times cost no more than others."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._known: dict[int, frozenset[str]] = {}  # by the definition's identity
        self._left = MAX_LOOKED_AT

    def of(self, schema: Any, depth: int = 0) -> frozenset[str]:
        """What `schema` says; empty: nothing, or not within the bounds."""
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH or not self._may_look():
            return frozenset()
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._behind(reference, depth)
        declared = schema.get("type")
        if isinstance(declared, str):
            return frozenset({declared}) & TYPES
        if isinstance(declared, list):
            return frozenset(t for t in declared[: len(TYPES)] if isinstance(t, str)) & TYPES
        enum = schema.get("enum")
        if isinstance(enum, list) or "const" in schema:
            values = enum if isinstance(enum, list) else [schema["const"]]
            return frozenset(map(_type_of, values)) if self._may_look(len(values)) else frozenset()
        for key in ("anyOf", "oneOf", "allOf"):
            if isinstance(schema.get(key), list):
                found = [self.of(option, depth + 1) for option in schema[key]]
                known = [types for types in found if types]
                if key != "allOf" and len(known) < len(found):
                    return frozenset()  # one of them allows anything
                return frozenset().union(*known)
        return frozenset()

    def _behind(self, reference: str, depth: int) -> frozenset[str]:
        """The types of a definition; one that leads back to itself says nothing."""
        target = resolved(reference, self._root)
        if id(target) not in self._known:
            self._known[id(target)] = frozenset()
            self._known[id(target)] = self.of(target, depth + 1)
        return self._known[id(target)]

    def _may_look(self, num: int = 1) -> bool:
        self._left -= num
        return self._left >= 0


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    for cls, name in (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (list, "array"),
    ):
        if isinstance(value, cls):
            return name
    return "object"


class ValueText:
    """Writes a value that stands as bare text in the model's format as JSON.

    A string is written while it comes; anything else is known at its end only.
    """

    def __init__(self, types: frozenset[str], take: Take) -> None:
        self._types = types
        self._take = take
        self._held: list[str] = []
        self._held_len = 0
        self._is_string = types == STRING
        if self._is_string:
            take('"')

    def add(self, text: str) -> None:
        """Take more of it in."""
        if self._is_string:
            self._take(quoted(text)[1:-1])
            return
        self._held.append(text)
        self._held_len += len(text)
        if self._held_len > MAX_UNTYPED_CHARS:
            self._is_string = True
            self._take('"' + quoted("".join(self._held))[1:-1])
            self._held.clear()

    def close(self) -> None:
        """It is whole."""
        self._take('"' if self._is_string else json_of("".join(self._held), self._types))


def json_of(text: str, types: frozenset[str]) -> str:
    """The JSON that the bare `text` stands for; `types` are those its schema allows."""
    if types == STRING:
        return quoted(text)
    bare = text.strip()
    bare = PYTHON_CONSTANTS.get(bare, bare)
    kind = _json_type(bare)
    if kind is None and bare[:1] in ("{", "["):
        try:
            bare = whole_value(bare, PYTHON)
        except NotThisError:
            return quoted(text)
        kind = _json_type(bare)
    if kind is None or ("string" in types and not _fits(kind, types)):
        return quoted(text)
    return bare


def _fits(kind: str, types: frozenset[str]) -> bool:
    return kind in types or (kind in ("integer", "number") and bool({"integer", "number"} & types))


def _json_type(text: str) -> str | None:
    """The type of the JSON value in `text`; None: it isn't JSON."""
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return None if is_deep(value) else _type_of(value)


def _refuse(name: str) -> None:
    raise ValueError(name)
