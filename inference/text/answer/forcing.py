"""The grammar that makes a model call a tool: `tool_choice` "required", or a name.

Reasoning may come first, where the template has any; then nothing but calls. It is a Lark grammar
of llguidance's, with each tool's parameters as the schema inside of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inference.protocol.params import Grammar
from inference.text.answer.families import AnswerFormat
from inference.text.answer.harmony import END, NEXT
from inference.text.answer.shapes import KEY, NAME, SHAPES, CallShape, Tags
from inference.text.answer.tools import STRING, Tool
from inference.text.schema.paths import path_of
from inference.text.schema.prepare import prepare
from llamaweb.lib.errors import InvalidError

MAX_CHARS = 64 * 1024  # of a grammar, as in the engine
MAX_PREPARED_CHARS = 4 * 1024 * 1024  # of schemas; of one with definitions for each property
MAX_CALLS = 16  # of one forced answer
SPACE = r"/[ \t\r\n]{0,4}/"
ANYTHING = r"/(.|\n)*/"
# Models write it as they read it in their prompts.
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
ENCODER = json.JSONEncoder()
# The id of the token that a text is, if it is a special one; None for every other text.
SpecialToken = Callable[[str], int | None]


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
    can. `opened`: see `AnswerFormat.opened_by`.

    Raises:
        InvalidError: a schema has what can't be enforced, or they are too long; with the path.
    """
    shapes = SHAPES[form.family]
    shape = next(s for s in shapes if not s.needs or special(s.needs) is not None)
    writer = _Writer(form, shape, special, opened)
    text = writer.grammar([(i, t) for i, t in enumerate(tools) if name in ("", t.name)], parallel)
    if len(text) > MAX_CHARS:
        raise _too_long()
    return Grammar(text, kind="lark", param="tools")


class _Writer:
    """Writes one grammar."""

    def __init__(
        self, form: AnswerFormat, shape: CallShape, special: SpecialToken, opened: str
    ) -> None:
        self._form = form
        self._shape = _behind(shape, opened.strip())
        self._opened = opened
        tokens = {marker: special(marker) for marker in form.markers}
        self._tokens = {marker: token for marker, token in tokens.items() if token is not None}
        # The longest first: of some the beginning is a marker too.
        markers = sorted(self._tokens, key=len, reverse=True)
        self._marker = re.compile("|".join(map(re.escape, markers)) or "(?!)")
        self._rules: list[str] = []
        self._num_chars = 0  # so far, or somewhat fewer
        self._num_prepared = 0  # characters of schemas

    def grammar(self, tools: Sequence[tuple[int, Tool]], parallel: bool) -> str:
        """The whole text."""
        shape = self._shape
        calls = [f"call{number}" for number, _ in tools]
        self._rules.append("call: " + " | ".join(calls))
        several = ""
        if parallel and shape.between is not None:
            several = f" ({self._text(shape.between)} call){{0,{MAX_CALLS - 1}}}"
        start = f"{self._thoughts()} calls"
        self._rules.append(
            f"calls: {self._text(shape.begin)} call{several} {self._text(shape.end)}"
        )
        for number, tool in tools:
            self._call(number, tool)
        return "\n".join(["%llguidance {}", f"start: {start}", *self._rules])

    def _thoughts(self) -> str:
        """What may stand in front of the calls."""
        reasoning = self._form.reasoning
        if self._form.is_harmony:
            thought = self._text("<|channel|>analysis<|message|>")
            until = self._until("thought", END)
            return f"({thought} {until} {self._text(NEXT.removeprefix(END))})?"
        if reasoning is None:
            return ""
        until = f"{self._until('thought', reasoning.closer)} {SPACE}"
        if self._opened and self._opened.strip() == reasoning.opener.strip():
            return until
        return f"({self._text(reasoning.opener)} {until})?"

    def _call(self, number: int, tool: Tool) -> None:
        shape = self._shape
        param = f"tools[{number}].function.parameters"
        schema = _closed(tool.parameters or {})
        if shape.tags is None:
            arguments = self._json(schema, param)
        else:
            arguments = " ".join(self._tagged(number, tool, schema, shape.tags, param))
        head = self._text(shape.head.replace(NAME, tool.name))
        self._rules.append(f"call{number}: {head} {arguments} {self._text(shape.tail)}")

    def _tagged(
        self, number: int, tool: Tool, schema: Mapping[str, Any], tags: Tags, param: str
    ) -> Iterator[str]:
        """Each parameter between its tags, in the schema's order."""
        properties, required = schema["properties"], schema.get("required")
        if not isinstance(properties, dict):
            raise InvalidError("must be an object of schemas", param=f"{param}.properties")
        required = frozenset(map(str, required if isinstance(required, list) else ()))
        definitions = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
        for place, (key, value) in enumerate(properties.items()):
            here = path_of(param, ("properties", key))
            if not isinstance(value, dict | bool):
                raise InvalidError("must be a schema: an object, true or false", param=here)
            value = value if isinstance(value, dict) else {}
            if tool.types(key) != STRING:
                refers = '"$ref"' in json.dumps(value)
                root = self._json({**definitions, **value} if refers else value, here)
                rest = f"{root} {self._text(tags.closer)}"
            elif value.get("enum") is None:
                rest = self._until(f"value{number}_{place}", tags.closer)
            else:
                options = map(self._text, _texts_of(value["enum"], f"{here}.enum"))
                rest = f"({' | '.join(options)}) {self._text(tags.closer)}"
            item = f"{self._text(tags.opener.replace(KEY, key))} {rest}"
            self._count(len(item))
            yield item if key in required else f"({item})?"

    def _json(self, schema: Mapping[str, Any], param: str) -> str:
        """A JSON value of the schema, as a rule of its own."""
        self._num_prepared += len(json.dumps(schema))
        if self._num_prepared > MAX_PREPARED_CHARS:
            raise _too_long()
        root = {"x-guidance": JSON_STYLE, **prepare(schema, param=param).root}
        pieces = []
        try:
            # Piece by piece: written out it may be many times as long as what the client sent.
            for piece in ENCODER.iterencode(root):
                self._count(len(piece))
                pieces.append(piece)
        except RecursionError:
            raise InvalidError("its references lead too deep", param=param) from None
        name = f"json{len(self._rules)}"
        self._rules.append(f"{name}: %json {''.join(pieces)}")
        return name

    def _count(self, num_chars: int) -> None:
        self._num_chars += num_chars
        if self._num_chars > MAX_CHARS:
            raise _too_long()

    def _until(self, name: str, closer: str) -> str:
        """Any text up to `closer`, and that."""
        parts = self._parts(closer)
        first, rest = parts[0], " ".join(map(self._part, parts[1:]))
        if isinstance(first, int):  # no text matches a special token
            return f"{ANYTHING} {self._part(first)} {rest}"
        self._rules.append(f"{name}[suffix={json.dumps(first)}]: {ANYTHING}")
        self._count(len(self._rules[-1]))
        return f"{name} {rest}"

    def _text(self, text: str) -> str:
        """`text` in the grammar's notation, special tokens as such."""
        return " ".join(map(self._part, self._parts(text)))

    def _part(self, part: str | int) -> str:
        return f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False)

    def _parts(self, text: str) -> list[str | int]:
        if len(text) > MAX_CHARS:
            raise _too_long()
        parts: list[str | int] = []
        start = 0
        for found in self._marker.finditer(text):
            parts += [text[start : found.start()], self._tokens[found[0]]]
            start = found.end()
        return [part for part in (*parts, text[start:]) if part != ""]


def _too_long() -> InvalidError:
    return InvalidError(
        f"make a grammar of more than {MAX_CHARS} characters, which is too long where a call is "
        "forced",
        param="tools",
    )


def _texts_of(enum: Any, param: str) -> list[str]:
    """The texts among the values of an `enum`."""
    texts = [text for text in enum if isinstance(text, str)] if isinstance(enum, list) else []
    if not texts:
        raise InvalidError("must be a list of values, with a text among them", param=param)
    return texts


def _behind(shape: CallShape, opened: str) -> CallShape:
    """The shape of calls that the prompt has begun already."""
    if not opened or not (shape.begin + shape.head).startswith(opened):
        return shape
    if shape.begin:
        return replace(shape, begin=shape.begin.removeprefix(opened))
    return replace(shape, head=shape.head.removeprefix(opened), between=None)


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's parameters as an object with no other properties, unless it is about those."""
    given = {name: value for name, value in schema.items() if value is not None}
    out = {"type": "object", "properties": {}, **given}
    if not out.keys() & {"anyOf", "oneOf", "allOf", "$ref", "patternProperties"}:
        out.setdefault("additionalProperties", False)
    return out
