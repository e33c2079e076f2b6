"""Grammars for calls of a request's tools, in the way their family writes them.

`forced_grammar` makes a model call one: `tool_choice` "required", or a name. Reasoning may come
first, where the template has any; then nothing but calls. `awaited_grammar` sleeps until the model
begins a call by itself. Both are Lark of llguidance's, with each tool's parameters as the schema
inside of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inference.protocol.params import MAX_TRIGGERS, Grammar, GrammarTrigger
from inference.text.answer.families import AnswerFormat
from inference.text.answer.lark_writer import (
    MAX_CHARS,
    SPACE,
    LarkWriter,
    SpecialToken,
    too_long,
)
from inference.text.answer.shapes import KEY, NAME, NUMBER, SHAPES, CallShape, Tags
from inference.text.answer.tools import STRING, Tool
from inference.text.answer.wakers import Waker, behind, wakers_of
from inference.text.schema.paths import path_of
from inference.text.schema.prepare import prepare
from llamaweb.lib.errors import InvalidError

MAX_PREPARED_CHARS = 4 * 1024 * 1024  # of schemas; of one with definitions for each property
MAX_CALLS = 16  # of one answer
DIGITS = "/[0-9]{1,3}/"
ANY_KEY = r'/[^<>"\r\n]{1,256}/'  # of a parameter
# Models write it as they read it in their prompts.
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
EMPTY = '""'
# What names an object's properties elsewhere than in `properties`.
NAMING = frozenset({"anyOf", "oneOf", "allOf", "$ref", "patternProperties"})
ENCODER = json.JSONEncoder()
NumberedTools = Sequence[tuple[int, Tool]]


def forced_grammar(
    form: AnswerFormat,
    tools: Sequence[Tool],
    *,
    name: str = "",
    opened: str = "",
    parallel: bool = True,
    special: SpecialToken,
) -> Grammar:
    """A grammar for a call of one of `tools`, or of `name`; several if `parallel` and the family
    can. `opened`: see `AnswerFormat.opened_by`. Parameters whose schema can't be enforced are held
    to be JSON only, unless their tool is strict.

    Raises:
        InvalidError: a strict tool's schema has what can't be enforced, or all are too long; with
            the path.
    """
    writer = _Writer(form, _shape_of(form, special), special, is_forced=True)
    text = writer.forced(
        [(i, t) for i, t in enumerate(tools) if name in ("", t.name)], parallel, opened
    )
    return Grammar(_bounded(text), kind="lark", param="tools")


def awaited_grammar(
    form: AnswerFormat,
    tools: Sequence[Tool],
    *,
    opened: str = "",
    parallel: bool = True,
    special: SpecialToken,
) -> Grammar | None:
    """A lazy grammar for calls that the model begins itself, and what ends them; None: nothing
    tells their beginning from text, or the tools are too long or many. Parameters whose schema
    can't be enforced are held to be JSON only."""
    shape = _shape_of(form, special)
    wakers = wakers_of(form, shape, [tool.name for tool in tools], opened.strip())
    if not wakers or not tools:
        return None
    writer = _Writer(form, shape, special, is_forced=False)
    try:
        text = _bounded(writer.awaited(list(enumerate(tools)), parallel, wakers))
    except InvalidError:
        return None
    triggers = dict.fromkeys(GrammarTrigger(w.kind, t) for w in wakers for t in w.texts)
    if len(triggers) > MAX_TRIGGERS:
        return None
    return Grammar(
        text, lazy=True, triggers=tuple(triggers), kind="lark", param="tools", lenient=True
    )


def _shape_of(form: AnswerFormat, special: SpecialToken) -> CallShape:
    shapes = SHAPES[form.family]
    return next(s for s in shapes if not s.needs or special(s.needs) is not None)


def _bounded(text: str) -> str:
    if len(text) > MAX_CHARS:
        raise too_long()
    return text


class _Writer:
    """Writes one grammar. What can't be enforced is left free, unless the call `is_forced` and its
    tool strict."""

    def __init__(
        self, form: AnswerFormat, shape: CallShape, special: SpecialToken, *, is_forced: bool
    ) -> None:
        self._shape = shape
        self._lark = LarkWriter(form, special)
        self._is_forced = is_forced
        self._is_strict = False  # about the tool that is being written
        self._num_prepared = 0  # characters of schemas

    def forced(self, tools: NumberedTools, parallel: bool, opened: str) -> str:
        """The whole text of a grammar for nothing but calls, behind reasoning."""
        self._shape = behind(self._shape, opened.strip())
        start = f"{self._lark.thoughts(opened)} {self._calls(self._shape, 'call', parallel)}"
        self._call_rules("call", self._shape.head, tools)
        return self._whole(start, tools)

    def awaited(self, tools: NumberedTools, parallel: bool, wakers: Sequence[Waker]) -> str:
        """The whole text of a grammar that begins where one of `wakers` does."""
        starts = []
        for number, waker in enumerate(wakers):
            first = f"first{number}"
            starts.append(self._calls(waker.shape, first, parallel))
            self._call_rules(first, waker.shape.head, tools, spaced=waker.spaced_behind)
        if parallel and self._shape.between is not None:
            self._call_rules("call", self._shape.head, tools)
        return self._whole(" | ".join(starts), tools)

    def _whole(self, start: str, tools: NumberedTools) -> str:
        for number, tool in tools:
            self._is_strict = self._is_forced and tool.is_strict
            self._arguments(number, tool)
        return "\n".join(["%llguidance {}", f"start: {start}", *self._lark.rules])

    def _calls(self, shape: CallShape, first: str, parallel: bool) -> str:
        """All calls, the first of them as the rule `first` says. White space never decides whether
        another one comes: it may stand behind the last one too."""
        between, several = shape.between, ""
        begin, end = self._lark.text(shape.begin), self._lark.text(shape.end)
        is_spaced = between is not None and not between.strip()
        if parallel and between is not None:
            gap = SPACE if is_spaced else self._lark.text(between)
            several = f" ({gap} call){{0,{MAX_CALLS - 1}}}"
        if end and is_spaced:
            end = f"{SPACE} {end}"
        return f"{begin} {first}{several} {end} {SPACE}"

    def _call_rules(self, rule: str, head: str, tools: NumberedTools, *, spaced: str = "") -> None:
        """The rule of a call with this head; behind `spaced` in it may stand white space."""
        start, rest = "", head
        if spaced:
            start, rest = f"{self._lark.text(spaced)} {SPACE} ", head[len(spaced) :].lstrip()
        options = []
        for number, tool in tools:
            options.append(f"{start}{self._head(rest, tool)} args{number}")
            self._lark.count(len(options[-1]))
        tail = self._lark.text(self._shape.tail)
        self._lark.rules.append(f"{rule}: ({' | '.join(options)}) {tail}")

    def _head(self, head: str, tool: Tool) -> str:
        texts = head.replace(NAME, tool.name).split(NUMBER)
        return f" {DIGITS} ".join(map(self._lark.text, texts))

    def _arguments(self, number: int, tool: Tool) -> None:
        """What stands between a call's head and its tail."""
        param = f"tools[{number}].function.parameters"
        schema = _closed(tool.parameters or {}, is_forced=self._is_forced)
        if self._shape.tags is None:
            text = self._json(schema, param)
        elif self._is_free(schema):
            text = self._free(f"free{number}", self._shape.tags)
        else:
            text = " ".join(self._tagged(number, tool, schema, self._shape.tags, param))
        self._lark.rules.append(f"args{number}: {text or EMPTY}")

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
        before, behind_key = map(self._lark.text, tags.opener.split(KEY))
        item = f"{before} {ANY_KEY} {behind_key} {self._lark.until(name, tags.closer)}"
        self._lark.count(len(item))
        return f"({item})*"

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
        definitions = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
        for place, (key, value) in enumerate(properties.items()):
            here = path_of(param, ("properties", key))
            name = f"value{number}_{place}"
            try:
                rest = self._value(name, tool.types(key), value, definitions, tags, here)
            except InvalidError:
                if self._is_strict:
                    raise
                rest = self._lark.until(f"{name}x", tags.closer)
            item = f"{self._lark.text(tags.opener.replace(KEY, key))} {rest}"
            self._lark.count(len(item))
            yield item if key in required else f"({item})?"

    def _value(
        self,
        name: str,
        types: frozenset[str],
        value: Any,
        definitions: Mapping[str, Any],
        tags: Tags,
        here: str,
    ) -> str:
        """A parameter's value and what closes it."""
        if not isinstance(value, dict | bool):
            raise InvalidError("must be a schema: an object, true or false", param=here)
        value = value if isinstance(value, dict) else {}
        if types != STRING:
            refers = '"$ref"' in json.dumps(value)
            root = self._json({**definitions, **value} if refers else value, here)
            return f"{root} {self._lark.text(tags.closer)}"
        if value.get("enum") is None:
            return self._lark.until(name, tags.closer)
        options = map(self._lark.text, _texts_of(value["enum"], f"{here}.enum"))
        return f"({' | '.join(options)}) {self._lark.text(tags.closer)}"

    def _json(self, schema: Mapping[str, Any], param: str) -> str:
        """A JSON value of the schema, as a rule of its own."""
        if self._num_prepared <= MAX_PREPARED_CHARS:  # else what follows isn't even counted
            self._num_prepared += len(json.dumps(schema))
        if self._num_prepared > MAX_PREPARED_CHARS:
            raise too_long()
        try:
            root = prepare(schema, param=param).root
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
