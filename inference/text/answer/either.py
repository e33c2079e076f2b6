"""Calls beside a form: an answer that is one or the other, as the model likes."""

from __future__ import annotations

from collections.abc import Sequence

from inference.text.answer.families import AnswerFormat
from inference.text.answer.forcing import forced_grammar
from inference.text.answer.lark_writer import SpecialToken
from inference.text.answer.shapes import SHAPES
from inference.text.answer.tools import Tool
from llamaweb.lib.errors import InvalidError


def calls_instead(
    form: AnswerFormat,
    tools: Sequence[Tool],
    *,
    opened: str = "",
    parallel: bool = True,
    special: SpecialToken,
) -> str:
    """Calls of `tools`, and the reasoning in front of them, as `Grammar.instead` wants them;
    `opened`, `parallel`: see `forced_grammar`.

    Raises:
        InvalidError: as `forced_grammar`, or nothing tells the family's calls from JSON.
    """
    if not _have_markers(form):
        raise InvalidError(
            "can't be combined with a form of the answer: this model writes its calls as plain "
            "JSON, which can't be told from it",
            param="tools",
        )
    grammar = forced_grammar(form, tools, opened=opened, parallel=parallel, special=special)
    _, rules = grammar.text.split("start:", 1)
    return f"instead:{rules}"


def _have_markers(form: AnswerFormat) -> bool:
    """Whether calls begin with what is no JSON, and their parser waits for."""
    sections = (section.opener for section in form.sections)
    openers = tuple(filter(str.strip, (*sections, *form.calls_by_opener)))
    shapes = SHAPES[form.family]
    return form.is_harmony or all((s.begin + s.head).startswith(openers) for s in shapes)
