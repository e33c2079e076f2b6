"""Lark for the calls of one shape, in which each tool's parameters are held to its schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from inference.text.answer.bare_texts import bare_texts
from inference.text.answer.lark_writer import SPACE, LarkWriter, too_long
from inference.text.answer.python_values import PythonValues
from inference.text.answer.shapes import (
    BARE_ID,
    CALL_ID,
    GAP,
    KEY,
    KIND,
    LAST_ID,
    NAME,
    NUMBER,
    SOFT_PLACE,
    CallShape,
    Tags,
)
from inference.text.answer.tools import STRING, Tool
from inference.text.answer.wakers import Waker
from inference.text.schema.keywords import ANNOTATIONS
from inference.text.schema.paths import path_of
from inference.text.schema.prepare import prepare
from llamaweb.lib.errors import InvalidError

MAX_PREPARED_CHARS = 4 * 1024 * 1024  # of schemas; of one with definitions for each property
MAX_CALLS = 16  # of one answer
# What stands in shapes for more than one text.
SOFT = {
    NUMBER: "/[0-9]{1,3}/",
    GAP: r"/[ \t\r\n]{0,16}/",
    CALL_ID: r'("\"tool_call_id\": \"" /[A-Za-z0-9_-]{1,64}/ "\", ")?',
    LAST_ID: r'(", \"id\": \"" /[A-Za-z0-9_-]{1,64}/ "\"")?',
    BARE_ID: "/[A-Za-z0-9_-]{0,64}/",
}
ANY_KEY = r'/[^<>"\r\n]{1,256}/'  # of a parameter
# Models write it as they read it in their prompts.
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
EMPTY = '""'
# What names an object's properties elsewhere than in `properties`.
NAMING = frozenset({"anyOf", "oneOf", "allOf", "$ref", "patternProperties"})
ENCODER = json.JSONEncoder()


class CallWriter:
    """Writes rules into `lark`, their names behind `prefix`. What can't be enforced is left free,
    unless the call `is_forced` and its tool strict."""

    def __init__(
        self, lark: LarkWriter, tools: Sequence[Tool], *, is_forced: bool, prefix: str = ""
    ) -> None:
        self._lark = lark
        self._tools = list(enumerate(tools))
        self._prefix = prefix
        self._is_forced = is_forced
        self._is_strict = False  # about the tool that is being written
        self._num_prepared = 0  # characters of schemas

    def forced(self, shape: CallShape, parallel: bool, name: str) -> str:
        """Nothing but calls; `name`: of the tool named so, if that isn't ""."""
        self._tools = [(i, tool) for i, tool in self._tools if name in ("", tool.name)]
        self._call_rules("call", shape, shape.head)
        self._all_arguments(shape)
        return self._calls(shape, "call", "call", parallel)

    def awaited(self, ways: Sequence[tuple[CallShape, Waker]], parallel: bool) -> Iterator[str]:
        """Calls that begin where a waker does, for each of these; their arguments are written
        alike."""
        call, written = "", None
        for number, (shape, waker) in enumerate(ways):
            if shape is not written:
                call, written = f"{self._prefix}call{number}", shape
                if parallel and shape.between is not None:
                    self._call_rules(call, shape, shape.head)
            first = f"{self._prefix}first{number}"
            yield self._calls(waker.shape, first, call, parallel)
            self._call_rules(first, shape, waker.shape.head, spaced=waker.spaced_behind)
        self._all_arguments(ways[0][0])

    def _all_arguments(self, shape: CallShape) -> None:
        for number, tool in self._tools:
            self._is_strict = self._is_forced and tool.is_strict
            self._arguments(shape, number, tool)

    def _calls(self, shape: CallShape, first: str, call: str, parallel: bool) -> str:
        """All calls, the first of them as the rule `first` says, the others as `call`. White space
        never decides whether another one comes: it may stand behind the last one too."""
        between, several = shape.between, ""
        begin, end = self._text(shape.begin), self._text(shape.end)
        is_spaced = between is not None and not between.strip()
        if parallel and between is not None:
            gap = SPACE if is_spaced else self._text(between)
            several = f" ({gap} {call}){{0,{MAX_CALLS - 1}}}"
        if end and is_spaced:
            end = f"{SPACE} {end}"
        return f"{begin} {first}{several} {end} {SPACE}"

    def _call_rules(self, rule: str, shape: CallShape, head: str, *, spaced: str = "") -> None:
        """The rule of a call with this head; behind `spaced` in it may stand white space."""
        start, rest = "", head
        if spaced:
            start, rest = f"{self._lark.text(spaced)} {SPACE} ", head[len(spaced) :].lstrip()
        options = []
        for number, tool in self._tools:
            options.append(f"{start}{self._head(rest, tool)} {self._prefix}args{number}")
            self._lark.count(len(options[-1]))
        tail = self._text(shape.tail)
        self._lark.rules.append(f"{rule}: ({' | '.join(options)}) {tail}")

    def _head(self, head: str, tool: Tool) -> str:
        return self._text(head.replace(NAME, tool.name))

    def _text(self, text: str) -> str:
        """A text of the shape's, in which may stand what is `SOFT`."""
        parts = SOFT_PLACE.split(text)
        return " ".join(SOFT.get(part) or self._lark.text(part) for part in parts)

    def _arguments(self, shape: CallShape, number: int, tool: Tool) -> None:
        """What stands between a call's head and its tail."""
        param = f"tools[{number}].function.parameters"
        schema = _closed(tool.parameters or {}, is_forced=self._is_forced)
        if shape.is_pythonic:
            values = PythonValues(
                self._lark, lambda value: self._json(_with_definitions(value, schema), param)
            )
            text = values.keywords(schema, is_free=self._is_free(schema))
        elif shape.tags is None:
            text = self._json(schema, param)
        elif self._is_free(schema):
            text = self._free(f"{self._prefix}free{number}", shape.tags)
        else:
            text = " ".join(self._tagged(number, tool, schema, shape.tags, param))
        self._lark.rules.append(f"{self._prefix}args{number}: {text or EMPTY}")

    def _is_free(self, schema: Mapping[str, Any]) -> bool:
        """Whether there may be parameters that the schema, which `_closed` made, doesn't list. A
        call that is forced keeps to the listed ones, if there are any."""
        properties = schema["properties"]
        if self._is_strict or (self._is_forced and properties and isinstance(properties, dict)):
            return False
        is_closed = schema.get("additionalProperties") is False and isinstance(properties, dict)
        return not is_closed or bool(schema.keys() & NAMING)

    def _free(self, name: str, tags: Tags) -> str:
        """Parameters of any names and values, each between its tags."""
        before, behind_key = tags.opener.split(KEY)
        before = f"{self._lark.text(before)} {ANY_KEY}"
        until = self._lark.until(name, tags.closer)
        item = f"{before} {self._opener(behind_key, [tags.text_kind])} {until}"
        if tags.json_kinds:
            opener = self._opener(behind_key, tags.json_kinds.values(), is_needed=True)
            closer = self._lark.text(tags.closer)
            item += f" | {before} {opener} {self._json({}, 'tools')} {closer}"
        self._lark.count(len(item))
        return f"({item})*"

    def _opener(self, text: str, kinds: Iterable[str], *, is_needed: bool = False) -> str:
        """A parameter's opener with one of `kinds` in it, if any `is_needed`."""
        before, place, behind_kind = text.partition(KIND)
        if not place:
            return self._lark.text(text)
        options = " | ".join(map(self._lark.text, dict.fromkeys(kinds)))
        kind = f"({options}){'' if is_needed else '?'}"
        return f"{self._lark.text(before)} {kind} {self._lark.text(behind_kind)}"

    def _tagged(
        self, number: int, tool: Tool, schema: Mapping[str, Any], tags: Tags, param: str
    ) -> Iterator[str]:
        """Each parameter between its tags, in the schema's order."""
        properties, required = schema["properties"], schema.get("required")
        if not isinstance(properties, dict):
            if not self._is_strict:
                return
            raise InvalidError("must be an object of schemas", param=f"{param}.properties")
        required = frozenset(map(str, required if isinstance(required, list) else ()))
        for place, (key, value) in enumerate(properties.items()):
            here = path_of(param, ("properties", key))
            opener, types = tags.opener.replace(KEY, key), tool.types(key)
            name = f"{self._prefix}value{number}_{place}"
            try:
                item = self._parameter(name, opener, types, value, schema, tags, here)
            except InvalidError:
                if self._is_strict:
                    raise
                kinds = (tags.text_kind, *tags.json_kinds.values())
                item = f"{self._opener(opener, kinds)} {self._lark.until(f'{name}x', tags.closer)}"
            self._lark.count(len(item))
            yield f"({item})" if key in required else f"({item})?"

    def _parameter(
        self,
        name: str,
        opener: str,
        types: frozenset[str],
        value: Any,
        schema: Mapping[str, Any],
        tags: Tags,
        here: str,
    ) -> str:
        """A parameter, whose value is bare text or JSON; both, where it may be either and what
        stands in front of it tells which."""
        if not isinstance(value, dict | bool):
            raise InvalidError("must be a schema: an object, true or false", param=here)
        value = value if isinstance(value, dict) else {}
        if types == STRING:
            front = self._opener(opener, [tags.text_kind])
            return f"{front} {self._bare(name, value, schema, tags, here)}"
        root = self._json(_with_definitions(value, schema), here)
        kinds = [kind for name, kind in tags.json_kinds.items() if not types or name in types]
        item = f"{self._opener(opener, kinds)} {root} {self._lark.text(tags.closer)}"
        if not tags.json_kinds or (types and "string" not in types):
            return item
        front = self._opener(opener, [tags.text_kind], is_needed=True)
        if bare_texts(value, schema) == ():
            return item
        return f"{item} | {front} {self._bare(name, value, schema, tags, here)}"

    def _bare(
        self, name: str, value: Mapping[str, Any], schema: Mapping[str, Any], tags: Tags, here: str
    ) -> str:
        """A bare text, and what closes it."""
        enum = value.get("enum")
        texts = bare_texts(value, schema) if enum is None else _texts_of(enum, f"{here}.enum")
        if not texts:
            return self._lark.until(name, tags.closer)
        options = map(self._lark.text, texts)
        return f"({' | '.join(options)}) {self._lark.text(tags.closer)}"

    def _json(self, schema: Mapping[str, Any], param: str) -> str:
        """A JSON value of the schema, as a rule of its own."""
        if self._num_prepared <= MAX_PREPARED_CHARS:  # else what follows isn't even counted
            self._num_prepared += len(json.dumps(schema))
        if self._num_prepared > MAX_PREPARED_CHARS:
            raise too_long()
        try:
            root = prepare(schema, param=param).root if schema.keys() - ANNOTATIONS else {}
        except InvalidError:
            if self._is_strict:
                raise
            root = {"type": "object"} if schema.get("type") == "object" else {}
        pieces = []
        try:
            # Piece by piece: written out it may be many times as long as what the client sent.
            for piece in ENCODER.iterencode({"x-guidance": JSON_STYLE, **root}):
                self._lark.count(len(piece))
                pieces.append(piece)
        except RecursionError:
            raise InvalidError("its references lead too deep", param=param) from None
        name = f"json{len(self._lark.rules)}"
        self._lark.rules.append(f"{name}: %json {''.join(pieces)}")
        return name


def _texts_of(enum: Any, param: str) -> list[str]:
    """The texts among the values of an `enum`."""
    texts = [text for text in enum if isinstance(text, str)] if isinstance(enum, list) else []
    if not texts:
        raise InvalidError("must be a list of values, with a text among them", param=param)
    return texts


def _closed(schema: Mapping[str, Any], *, is_forced: bool) -> dict[str, Any]:
    """A tool's parameters as an object with no other properties, unless it is about those, or names
    none and isn't forced."""
    given = {name: value for name, value in schema.items() if value is not None}
    out = {"type": "object", "properties": {}, **given}
    if not out.keys() & NAMING and (is_forced or out["properties"]):
        out.setdefault("additionalProperties", False)
    return out


def _with_definitions(value: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """`value`, a part of `root`, with the definitions that it may refer to."""
    if '"$ref"' not in json.dumps(value):
        return value
    return {**{k: root[k] for k in ("$defs", "definitions") if k in root}, **value}
