"""Grammars for calls of a request's tools, in the way their family writes them.

`forced_grammar` makes a model call one: `tool_choice` "required", or a name. Reasoning may come
first, where the template has any; then nothing but calls. `awaited_grammar` sleeps until the model
begins a call by itself. Both are Lark of llguidance's, with each tool's parameters as the schema
inside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from inference.protocol.params import MAX_TRIGGERS, Grammar, GrammarTrigger
from inference.text.answer.call_writer import CallWriter
from inference.text.answer.families import AnswerFormat
from inference.text.answer.lark_writer import MAX_CHARS, LarkWriter, SpecialToken, too_long
from inference.text.answer.shapes import BESIDE, SHAPES, CallShape
from inference.text.answer.tools import Tool
from inference.text.answer.wakers import Waker, behind, wakers_of
from llamaweb.lib.errors import InvalidError


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
    lark = LarkWriter(form, special)
    thoughts = lark.thoughts(opened)
    shape = behind(_shape_of(form, special), opened.strip())
    calls = CallWriter(lark, tools, is_forced=True).forced(shape, parallel, name)
    return Grammar(_whole(lark, f"{thoughts} {calls}"), kind="lark", param="tools")


def awaited_grammar(
    form: AnswerFormat,
    tools: Sequence[Tool],
    *,
    opened: str = "",
    parallel: bool = True,
    special: SpecialToken,
    alone: bool = False,
) -> Grammar | None:
    """A lazy grammar for calls that the model begins itself, and what ends them; None: nothing
    tells their beginning from text, or the tools are too long or many. Parameters whose schema
    can't be enforced are held to be JSON only. `alone`: for calls in the family's own shape only,
    None where it has no other or these begin alike."""
    if not tools:
        return None
    names, shape = [tool.name for tool in tools], _shape_of(form, special)
    every = [
        [(s, waker) for waker in wakers_of(form, s, names, opened.strip())]
        for s in (shape, *BESIDE.get(form.family, ()))
    ]
    own, others = every[0], list(chain(*every[1:]))
    groups = [] if alone else [[*own, *others]]
    if others and not _texts_of(own) & _texts_of(others):
        groups.append(own)  # it has room for more tools; calls in other shapes are text to it
    found = (_awaiting(form, tools, ways, parallel, special) for ways in groups)
    return next((grammar for grammar in found if grammar is not None), None)


def _awaiting(
    form: AnswerFormat,
    tools: Sequence[Tool],
    ways: Sequence[tuple[CallShape, Waker]],
    parallel: bool,
    special: SpecialToken,
) -> Grammar | None:
    """The grammar for calls that begin in one of `ways`; None: they are none, too long or many."""
    triggers = dict.fromkeys(GrammarTrigger(w.kind, text) for _, w in ways for text in w.texts)
    if not triggers or len(triggers) > MAX_TRIGGERS:
        return None
    lark = LarkWriter(form, special)
    starts: list[str] = []
    try:
        for is_pythonic in (False, True):  # each writes arguments in its own way
            alike = [(s, w) for s, w in ways if s.is_pythonic == is_pythonic]
            writer = CallWriter(lark, tools, is_forced=False, prefix="py" * is_pythonic)
            starts += writer.awaited(alike, parallel) if alike else ()
        text = _whole(lark, " | ".join(starts))
    except InvalidError:
        return None
    return Grammar(
        text, lazy=True, triggers=tuple(triggers), kind="lark", param="tools", lenient=True
    )


def _texts_of(ways: Sequence[tuple[CallShape, Waker]]) -> frozenset[str]:
    """What tells that a call begins in one of `ways`."""
    return frozenset(text for _, waker in ways for text in waker.texts)


def _shape_of(form: AnswerFormat, special: SpecialToken) -> CallShape:
    shapes = SHAPES[form.family]
    return next(s for s in shapes if not s.needs or special(s.needs) is not None)


def _whole(lark: LarkWriter, start: str) -> str:
    text = "\n".join(["%llguidance {}", f"start: {start}", *lark.rules])
    if len(text) > MAX_CHARS:
        raise too_long()
    return text
