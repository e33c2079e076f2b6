"""Answers for the parser's tests: formats by name, and how to read a text in pieces."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from inference.protocol.events import FinishReason
from inference.text.answer.detect import answer_format
from inference.text.answer.events import AnswerEvent, joined
from inference.text.answer.families import AnswerFormat
from inference.text.answer.parser import AnswerParser
from inference.text.answer.tools import Tool, tools_of
from tests.sdist import chat_template


def _function(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


# The tools of our own cases.
TOOLS = tools_of(
    [
        _function("get_weather", city={"type": "string"}, days={"type": "integer"}),
        _function("get_time"),
        _function(
            "search",
            query={"type": "string"},
            filters={"type": "object"},
            limit={"type": ["integer", "null"]},
        ),
        _function("note", text={"type": "string"}),
    ]
)


@functools.cache
def format_of(template: str) -> AnswerFormat:
    """The format of one of llama.cpp's templates."""
    return answer_format(chat_template(template))


def parser(
    form: AnswerFormat, tools: Sequence[Tool] = (), opened: str = "", prefix: str = "call_"
) -> AnswerParser:
    """A parser that numbers its calls."""
    numbers = itertools.count()
    return AnswerParser(
        form, tools=tools, make_id=lambda: f"{prefix}{next(numbers)}", opened=opened
    )


def read(
    form: AnswerFormat,
    text: str,
    cuts: Iterable[int] = (),
    *,
    tools: Sequence[Tool] = (),
    opened: str = "",
    finish: FinishReason = "stop",
) -> list[AnswerEvent]:
    """The joined events of `text`, pushed in pieces that end at `cuts`."""
    reader = parser(form, tools, opened)
    events: list[AnswerEvent] = []
    start = 0
    for end in (*cuts, len(text)):
        events += reader.push(text[start:end])
        start = end
    return joined(events + reader.finish(finish))
