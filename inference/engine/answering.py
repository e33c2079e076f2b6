"""What an answer is held to: its format, the grammar it follows, and how its reasoning ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from llguidance import LLMatcher

from inference.engine.contract import Thoughts
from inference.engine.samplers import check_grammar
from inference.protocol.params import Grammar
from inference.protocol.requests import ChatPrompt, GenerateRequest
from inference.text.answer.either import calls_instead
from inference.text.answer.families import AnswerFormat
from inference.text.answer.forcing import awaited_grammar, forced_grammar
from inference.text.answer.lark_writer import front_of
from inference.text.answer.tools import Tool, tools_of
from inference.text.prompts import TextPipeline
from llamaweb.lib.errors import FailedError, InvalidError

FORMS = ("json_schema", "regex")  # kinds of grammars that say all of an answer but its reasoning
NO_END = "knows no end of the reasoning that it goes on with"


@dataclass(frozen=True, slots=True)
class Plan:
    """`matcher`, `opened`, `is_begun`, `thoughts`: see `SequenceRequest`. `markers`: texts that
    must be seen though they may be special tokens."""

    grammar: Grammar | None
    matcher: LLMatcher | None
    opened: str = ""
    is_begun: bool = False
    thoughts: Thoughts | None = None
    markers: tuple[str, ...] = ()


def form_of(request: GenerateRequest, family: AnswerFormat) -> AnswerFormat | None:
    """How a model of `family` writes the answer; None: it is text, as answers to other prompts than
    chats.

    In what a schema or an expression asks for nothing is a call; only reasoning may stand in front
    of it, unless that is to stay in the content. A schema beside tools leaves calls in its place.

    Raises:
        InvalidError: a form would begin inside reasoning that stays in the content.
    """
    if not isinstance(request.prompt, ChatPrompt):
        return None
    grammar, splits = _binding(request), request.answer.splits_reasoning
    wanted = grammar if grammar is not None and grammar.kind in FORMS else None
    if wanted is not None and not splits and _goes_on_thinking(request, family):
        raise InvalidError(NO_END, param=wanted.param)
    if _is_either(request):
        form = family.with_calls_or_a_form()
        return form if splits else form.without_reasoning()
    if wanted is not None:
        form = family.in_a_form()
        return form if splits and form.reasoning_end else None
    form = family if request_tools(request) else family.without_calls()
    return None if form.is_plain else form


def plan_answer(
    request: GenerateRequest, form: AnswerFormat | None, prompt: str, text: TextPipeline
) -> Plan:
    """What the answer in `form` behind `prompt` is held to.

    Raises:
        InvalidError: the grammar can't be read, or a call can't be forced.
    """
    grammar = request.sampling.grammar
    if form is None:
        return Plan(grammar, check_grammar(grammar, text.tokenizer))
    opened = _opened(form, prompt, request)
    grammar, matcher = _grammar(request, form, opened, text)
    # One that nobody asked for sleeps until a call begins, and through reasoning.
    awaited = grammar.triggers if grammar is not None and grammar.lenient else ()
    return Plan(
        grammar,
        matcher,
        opened,
        _goes_on_thinking(request, form),
        _thoughts(request, form, text, is_awaiting=bool(awaited)),
        (*form.markers, *(trigger.value for trigger in awaited)),
    )


def request_tools(request: GenerateRequest) -> list[Any]:
    """Definitions of the tools that the answer may call."""
    prompt = request.prompt
    tools_json = prompt.tools_json if isinstance(prompt, ChatPrompt) else None
    tools = json.loads(tools_json) if tools_json else []
    return tools if isinstance(tools, list) else []


def _grammar(
    request: GenerateRequest, form: AnswerFormat, opened: str, text: TextPipeline
) -> tuple[Grammar | None, LLMatcher | None]:
    """The client's grammar, that of the call that has to be made, or one that waits for a call; and
    what it was compiled to."""
    grammar, answer, special = request.sampling.grammar, request.answer, text.special_token
    tools, parallel = tools_of(request_tools(request)), answer.parallel_tool_calls
    if answer.tool_choice == "required":
        name = answer.tool_name
        grammar = forced_grammar(
            form, tools, name=name, opened=opened, parallel=parallel, special=special
        )
    elif grammar is not None and grammar.text:
        if grammar.kind in FORMS and not grammar.lazy:
            grammar = replace(grammar, front=front_of(form, opened=opened, special=special))
        if _is_either(request):
            instead = calls_instead(form, tools, opened=opened, parallel=parallel, special=special)
            grammar = replace(grammar, instead=instead)
    else:
        return _awaited(form, tools, opened, parallel, text)
    return grammar, check_grammar(grammar, text.tokenizer)


def _awaited(
    form: AnswerFormat, tools: Sequence[Tool], opened: str, parallel: bool, text: TextPipeline
) -> tuple[Grammar | None, LLMatcher | None]:
    """The grammar that waits for a call, of those that can be compiled; nobody asked for one."""
    special = text.special_token
    for alone in (False, True):
        grammar = awaited_grammar(
            form, tools, opened=opened, parallel=parallel, special=special, alone=alone
        )
        try:
            return grammar, check_grammar(grammar, text.tokenizer)
        except InvalidError:
            continue
        except FailedError:
            break
    return None, None


def _thoughts(
    request: GenerateRequest, form: AnswerFormat, text: TextPipeline, *, is_awaiting: bool
) -> Thoughts | None:
    """How reasoning is followed, where it has a budget, may be ended or has to be slept through."""
    params = request.answer
    budget = params.reasoning_budget
    if budget is None and _is_off(request):
        budget = 0  # many templates don't listen
    if not form.reasoning_end:
        return None
    if budget is None and not params.reasoning_control and not is_awaiting:
        return None
    message = text.tokenize(params.reasoning_message, add_special=False, parse_special=False)
    closer = text.tokenize(form.reasoning_end, add_special=False, parse_special=True)
    if not closer:
        return None
    tools = tools_of(request_tools(request)) if form.calls_in_reasoning else ()
    return Thoughts(form, (*message, *closer), budget, tuple(tools))


def _is_off(request: GenerateRequest) -> bool:
    """Whether the template was told that the model isn't to think."""
    return isinstance(request.prompt, ChatPrompt) and request.prompt.is_thinking_off


def _binding(request: GenerateRequest) -> Grammar | None:
    """The client's grammar that the answer follows from its first token on."""
    grammar = request.sampling.grammar
    is_forced = request.answer.tool_choice == "required"  # by a grammar of our own
    is_binding = grammar is not None and grammar.text and not grammar.lazy and not is_forced
    return grammar if is_binding else None


def _is_either(request: GenerateRequest) -> bool:
    """Whether the model may call a tool or answer in the form of a schema, as it likes."""
    grammar = _binding(request)
    is_schema = grammar is not None and grammar.kind == "json_schema"
    return is_schema and bool(tools_of(request_tools(request)))


def _opened(form: AnswerFormat, prompt: str, request: GenerateRequest) -> str:
    """See `AnswerFormat.opened_by`. Of reasoning that the template opens nothing comes where the
    client's own grammar knows no end of it: the answer is what the grammar says."""
    grammar, reasoning = _binding(request), form.reasoning
    goes_on = _goes_on_thinking(request, form)
    opened = form.reasoning_start if goes_on else form.opened_by(prompt)
    if grammar is None or grammar.kind in FORMS:
        return opened
    is_ended = reasoning is not None and reasoning.closer.strip() in grammar.text
    if goes_on and not is_ended:
        raise InvalidError(NO_END, param="grammar")
    return opened if is_ended else ""


def _goes_on_thinking(request: GenerateRequest, form: AnswerFormat) -> bool:
    goes_on = isinstance(request.prompt, ChatPrompt) and request.prompt.continue_reasoning
    return goes_on and form.reasoning_start != ""
