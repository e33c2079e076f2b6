"""`grammar`, `grammar_lazy` and `grammar_triggers`, and the other ways to ask for a form; what a
grammar says is the engine's to read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inference.edge.openai.schemas import GenerationIn
from inference.edge.openai.structured import form_of, grammar_text
from inference.edge.wire_types import MAX_INT32, MAX_SHORT_CHARS
from inference.protocol.params import Grammar, GrammarTrigger
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_TRIGGERS = 64
TOKEN, WORD = 0, 1  # llama-server's numbers of triggers; it also has two kinds of patterns


def grammar_of(body: GenerationIn) -> Grammar | None:
    """What the answer of a request must follow; an empty grammar is none.

    Raises:
        InvalidError: naming the field.
    """
    form = form_of(body)
    if form is not None or not body.grammar:
        return form
    grammar = grammar_text(body.grammar, "grammar")
    triggers = _triggers(body.grammar_triggers)
    if body.grammar_lazy and not triggers:
        raise InvalidError("a lazy grammar needs at least one trigger", param="grammar_triggers")
    return replace(grammar, lazy=body.grammar_lazy, triggers=triggers)


def _triggers(triggers: Any) -> tuple[GrammarTrigger, ...]:
    if triggers is None:
        return ()
    if not isinstance(triggers, list):
        raise InvalidError("must be a list of triggers", param="grammar_triggers")
    if len(triggers) > MAX_TRIGGERS:
        raise InvalidError(
            f"has {len(triggers)} entries, at most {MAX_TRIGGERS} are allowed",
            param="grammar_triggers",
        )
    return tuple(_trigger(t, f"grammar_triggers[{index}]") for index, t in enumerate(triggers))


def _trigger(trigger: Any, path: str) -> GrammarTrigger:
    if not isinstance(trigger, dict):
        raise InvalidError("must be an object with 'type' and 'value'", param=path)
    kind, value, token = trigger.get("type"), trigger.get("value"), trigger.get("token")
    if kind == TOKEN and type(kind) is int:
        if type(token) is not int or not 0 <= token <= MAX_INT32:
            raise InvalidError("needs a 'token' that is an id", param=path)
        return GrammarTrigger("token", token_id=token)
    if kind != WORD or type(kind) is not int:
        # Patterns would run in the engine's loop, where a slow one holds up everybody.
        raise InvalidError("'type' must be 0 (a token) or 1 (a word)", param=path)
    if not isinstance(value, str) or not 0 < len(value) <= MAX_SHORT_CHARS:
        raise InvalidError(f"needs a 'value' of 1 to {MAX_SHORT_CHARS} characters", param=path)
    return GrammarTrigger("word", valid_text(value))
