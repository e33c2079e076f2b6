"""The grammar that makes a model call a tool: `tool_choice` "required", or a name.

Reasoning may come first, where the template has any; then nothing but calls. It is a Lark grammar
of llguidance's, with each tool's parameters as the schema inside of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inference.protocol.params import Grammar
from inference.text.answer.families import AnswerFormat
from inference.text.answer.harmony import END, NEXT
from inference.text.answer.shapes import KEY, NAME, SHAPES, CallShape, Tags
from inference.text.answer.tools import STRING, Tool
from inference.text.schema.prepare import prepare
from llamaweb.lib.errors import InvalidError

MAX_CHARS = 64 * 1024  # of a grammar, as in the engine
MAX_CALLS = 16  # of one forced answer
SPACE = r"/[ \t\r\n]{0,4}/"
ANYTHING = r"/(.|\n)*/"
# Models write it as they read it in their prompts.
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
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
        raise InvalidError(
            f"make a grammar of {len(text)} characters, at most {MAX_CHARS} are allowed where a "
            "call is forced",
            param="tools",
        )
    return Grammar(text, kind="lark", param="tools")


class _Writer:
    """Writes one grammar."""

    def __init__(
        self, form: AnswerFormat, shape: CallShape, special: SpecialToken, opened: str
    ) -> None:
        self._form = form
        self._shape = _behind(shape, opened.strip())
        self._special = special
        self._opened = opened
        # The longest first: of some the beginning is a marker too.
        self._markers = sorted(form.markers, key=len, reverse=True)
        self._rules: list[str] = []

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
            arguments = self._json(prepare(schema, param=param).root)
        else:
            arguments = " ".join(self._tagged(number, tool, schema, shape.tags, param))
        head = self._text(shape.head.replace(NAME, tool.name))
        self._rules.append(f"call{number}: {head} {arguments} {self._text(shape.tail)}")

    def _tagged(
        self, number: int, tool: Tool, schema: Mapping[str, Any], tags: Tags, param: str
    ) -> Iterator[str]:
        """Each parameter between its tags, in the schema's order."""
        required = schema.get("required")
        required = required if isinstance(required, list) else []
        definitions = {k: schema[k] for k in ("$defs", "definitions") if k in schema}
        for place, (key, value) in enumerate(schema["properties"].items()):
            name = f"value{number}_{place}"
            if tool.types(key) == STRING and not (isinstance(value, dict) and "enum" in value):
                rest = self._until(name, tags.closer)
            elif tool.types(key) == STRING:
                options = (self._text(text) for text in value["enum"] if isinstance(text, str))
                rest = f"({' | '.join(options)}) {self._text(tags.closer)}"
            else:
                whole = {**definitions, **value} if isinstance(value, dict) else {}
                root = prepare(whole, param=f"{param}.properties.{key}").root
                rest = f"{self._json(root)} {self._text(tags.closer)}"
            item = f"{self._text(tags.opener.replace(KEY, key))} {rest}"
            yield item if key in required else f"({item})?"

    def _json(self, root: Mapping[str, Any]) -> str:
        """A JSON value of the schema, as a rule of its own."""
        name = f"json{len(self._rules)}"
        self._rules.append(f"{name}: %json " + json.dumps({"x-guidance": JSON_STYLE, **root}))
        return name

    def _until(self, name: str, closer: str) -> str:
        """Any text up to `closer`, and that."""
        parts = self._parts(closer)
        first, rest = parts[0], " ".join(map(self._part, parts[1:]))
        if isinstance(first, int):  # no text matches a special token
            return f"{ANYTHING} {self._part(first)} {rest}"
        self._rules.append(f"{name}[suffix={json.dumps(first)}]: {ANYTHING}")
        return f"{name} {rest}"

    def _text(self, text: str) -> str:
        """`text` in the grammar's notation, special tokens as such."""
        return " ".join(map(self._part, self._parts(text)))

    def _part(self, part: str | int) -> str:
        return f"<[{part}]>" if isinstance(part, int) else json.dumps(part, ensure_ascii=False)

    def _parts(self, text: str) -> list[str | int]:
        parts: list[str | int] = []
        while text:
            found = [(text.find(m), -len(m), m) for m in self._markers if m in text]
            found = [item for item in found if self._special(item[2]) is not None]
            if not found:
                return [*parts, text]
            place, _, marker = min(found)
            token = self._special(marker)
            assert token is not None
            parts += [*([text[:place]] if place else []), token]
            text = text[place + len(marker) :]
        return parts


def _behind(shape: CallShape, opened: str) -> CallShape:
    """The shape of calls that the prompt has begun already."""
    if not opened or not (shape.begin + shape.head).startswith(opened):
        return shape
    if shape.begin:
        return replace(shape, begin=shape.begin.removeprefix(opened))
    return replace(shape, head=shape.head.removeprefix(opened), between=None)


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's parameters as an object with no other properties, unless it is about those."""
    out = {"type": "object", "properties": {}, **schema}
    if not out.keys() & {"anyOf", "oneOf", "allOf", "$ref", "patternProperties"}:
        out.setdefault("additionalProperties", False)
    return out
