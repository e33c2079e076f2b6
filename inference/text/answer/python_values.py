"""Lark for values in Python's notation, held to a JSON schema.

JSON's own notation can be read there too (`values.PYTHON`), so whatever has no notation of its own
here is held to its schema in JSON's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference.text.answer.lark_writer import LarkWriter
from inference.text.answer.pythonic_calls import MAX_NAME_CHARS, NAME

SEPARATOR = r"/,[ \t\r\n]{0,8}/"
ASSIGN, COLON = r"/ ?= ?/", r"/:[ ]?/"
MAX_ITEMS = 1000  # of a list, where there have to be so many
PLAIN = frozenset({"type", "title", "description", "default", "examples", "$comment", "deprecated"})
OF_LISTS, OF_OBJECTS = (
    {"items", "minItems", "maxItems"},
    {*("properties", "required", "additionalProperties", "$defs", "definitions")},
)
# Any value; a name of an argument that no schema tells.
RULES = {
    "pytext": r"""/"([^"\\\r\n]|\\.)*"/ | /'([^'\\\r\n]|\\.)*'/""",
    "pynumber": r"/-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/",
    "pybool": '"True" | "False" | "true" | "false"',
    "pynull": '"None" | "null"',
    "pylist": f'"[" (pyany ({SEPARATOR} pyany)*)? "]"',
    "pypair": f"pytext {COLON} pyany",
    "pydict": f'"{{" (pypair ({SEPARATOR} pypair)*)? "}}"',
    "pyany": "pytext | pynumber | pybool | pynull | pylist | pydict",
    "pyargument": f"/[A-Za-z_][A-Za-z0-9_]{{0,63}}/ {ASSIGN} pyany",
}
SCALARS = {"string": "pytext", "boolean": "pybool", "null": "pynull"}


class PythonValues:
    """Writes the arguments of one tool into `lark`; `as_json` gives the rule of a schema's values
    in JSON. Raises as `lark` and `as_json`."""

    def __init__(self, lark: LarkWriter, as_json: Callable[[Mapping[str, Any]], str]) -> None:
        self._lark = lark
        self._as_json = as_json
        for name, body in RULES.items():
            if (rule := f"{name}: {body}") not in lark.rules:
                lark.rules.append(rule)

    def keywords(self, schema: Mapping[str, Any], *, is_free: bool) -> str:
        """The arguments of a call: `a=1, b="x"`, in the schema's order; of any names if
        `is_free`."""
        properties = schema.get("properties")
        if is_free or not isinstance(properties, Mapping) or not all(map(_is_name, properties)):
            return f"(pyargument ({SEPARATOR} pyargument)*)?"
        members = [
            (f"{json.dumps(key)} {ASSIGN} {self._value(value)}", key)
            for key, value in properties.items()
            if value is not False
        ]
        return self._members(members, schema.get("required"), "")

    def _value(self, schema: Any) -> str:
        """Values of `schema`, as the name of a rule."""
        if not isinstance(schema, Mapping) or not schema:
            return "pyany"
        enum = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(enum, list) and enum:
            return self._rule(" | ".join(dict.fromkeys(_literals(enum))))
        kind, said = schema.get("type"), {name for name in schema if name not in PLAIN}
        if isinstance(kind, list) and kind and not said:
            return self._rule(" | ".join(self._value({"type": one}) for one in kind))
        if isinstance(options := schema.get("anyOf"), list) and options and said == {"anyOf"}:
            return self._rule(" | ".join(map(self._value, options)))
        if isinstance(kind, str) and kind in SCALARS and not said:
            return SCALARS[kind]
        if kind == "array" and said <= OF_LISTS:
            return self._list(schema)
        if kind == "object" and said <= OF_OBJECTS:
            return self._object(schema)
        return self._as_json(schema)

    def _list(self, schema: Mapping[str, Any]) -> str:
        least, most = schema.get("minItems") or 0, schema.get("maxItems")
        item = self._value(schema.get("items", {}))
        counts = (least, *(() if most is None else (most,)))
        if not all(type(count) is int and 0 <= count <= MAX_ITEMS for count in counts):
            return self._as_json(schema)
        if most is not None and least > most:
            return "pylist"  # none fulfils it, and such a rule would end all calls of all tools
        if most == 0:
            return self._rule('"[" "]"')
        items, upper = item, "" if most is None else most - 1
        if most != 1:
            items += f" ({SEPARATOR} {item}){{{max(least - 1, 0)},{upper}}}"
        return self._rule(f'"[" {items} "]"' if least else f'"[" ({items})? "]"')

    def _object(self, schema: Mapping[str, Any]) -> str:
        properties, more = schema.get("properties") or {}, schema.get("additionalProperties")
        if not isinstance(properties, Mapping) or (not properties and schema.get("required")):
            return self._as_json(schema)
        if not properties and more in (None, True):
            return "pydict"
        members = [
            (f"({' | '.join(_quoted(key))}) {COLON} {self._value(value)}", key)
            for key, value in properties.items()
            if value is not False
        ]
        rest = "" if more is False else f"pytext {COLON} {self._value(more)}"
        return self._rule(f'"{{" {self._members(members, schema.get("required"), rest)} "}}"')

    def _members(self, members: Sequence[tuple[str, str]], required: Any, rest: str) -> str:
        """Members (text, name) in order, commas between them, and any number of `rest`."""
        needed = frozenset(map(str, required if isinstance(required, list) else ()))
        first = f"({rest} ({SEPARATOR} {rest})*)?" if rest else '""'
        later = f"({SEPARATOR} {rest})*" if rest else '""'
        for text, name in reversed(members):
            behind = self._rule(later)
            if name in needed:
                first, later = f"{text} {behind}", f"{SEPARATOR} {text} {behind}"
            else:
                first = f"{text} {behind} | {self._rule(first)}"
                later = f"({SEPARATOR} {text})? {behind}"
        return f"({first})"

    def _rule(self, body: str) -> str:
        """A rule of its own, by its name."""
        name = f"py{len(self._lark.rules)}"
        self._lark.count(len(body))
        self._lark.rules.append(f"{name}: {body}")
        return name


def _is_name(key: str) -> bool:
    return len(key) <= MAX_NAME_CHARS and NAME.fullmatch(key) is not None


def _quoted(text: str) -> tuple[str, ...]:
    """Lark for a Python string, between either quotes."""
    double = json.dumps(text, ensure_ascii=False)
    single = "'" + double[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    return json.dumps(double, ensure_ascii=False), json.dumps(single, ensure_ascii=False)


def _literals(values: Sequence[Any]) -> list[str]:
    """Lark for each of these values."""
    found: list[str] = []
    for value in values:
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, str):
            found += _quoted(value)
        elif value is None or isinstance(value, bool):
            found += (json.dumps(repr(value)), json.dumps(text))
        else:
            found.append(json.dumps(text, ensure_ascii=False))
    return found
