"""A request of the Responses API to a `GenerateRequest`, and to what is kept of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from inference.edge.asking import SubmitContext, generations_of
from inference.edge.client_noise import without_noise
from inference.edge.openai.generation import (
    asked_of,
    refuse_unsupported,
    sampling_of,
    seeds_of,
)
from inference.edge.prompt_bounds import refuse_too_much
from inference.edge.responses.ids import new_response_id
from inference.edge.responses.items import MAX_ITEMS, Item, items_to_keep
from inference.edge.responses.messages import messages_of
from inference.edge.responses.options import ResponseOptions, options_to_json
from inference.edge.responses.schemas import INCLUDE_LOGPROBS, ResponseIn
from inference.edge.responses.tools import Offered, offered_of
from inference.edge.schema_form import form_kind, schema_form
from inference.edge.template_variables import template_variables
from inference.protocol.params import Grammar, SamplingParams
from inference.protocol.requests import ChatPrompt, GenerateRequest, Message
from inference.registry.generations import ON_FINISH
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_NOTES = 32
NOT_CUT = "truncation: nothing is cut here; an input that doesn't fit the context is refused"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A response to make. `items`: what was asked in it, as it is kept."""

    request: GenerateRequest
    options: ResponseOptions
    items: list[Item]

    @property
    def response_id(self) -> str:
        """The id that its client gets."""
        return self.request.reply.reply_id


def response_wanted(
    body: ResponseIn,
    context: SubmitContext,
    items: Sequence[Item],
    *,
    before: Sequence[Item] = (),
    root_id: str = "",
) -> Wanted:
    """What `body` asks for; `items` are its input with references resolved, `before` those of all
    that it goes on from, whose first response is `root_id`.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    _refuse(body)
    prompt, offered, notes = response_prompt(body, context, items, before)
    options = _options(body, context, offered, notes)
    sampling = _sampling(body, context, options)
    if offered.answer.tool_choice == "required" and sampling.grammar is not None:
        raise InvalidError("a forced call can't be combined with a form", param="tool_choice")
    if offered.tools_json and body.grammar:
        raise InvalidError("can't be combined with tools", param="grammar")
    response_id = new_response_id()
    asked = asked_of(body, context, sampling, offered.answer)
    limits = asked.limits
    if body.max_output_tokens is not None:
        most = body.max_output_tokens
        limits = replace(limits, max_tokens=None if most == -1 else most)
    asked = replace(
        asked,
        limits=limits,
        context=replace(asked.context, conversation=root_id or response_id),
        lane="background" if body.background else "interactive",
    )
    (request,) = generations_of(
        [prompt],
        asked,
        context,
        reply_id=response_id,
        seeds=seeds_of(body, 1),
        options_json=[options_to_json(options)],
    )
    if body.store:
        request = replace(request, keep=True, on_finish=ON_FINISH)
    return Wanted(request, options, items_to_keep(list(items), response_id))


def response_prompt(
    body: ResponseIn, context: SubmitContext, items: Sequence[Item], before: Sequence[Item]
) -> tuple[ChatPrompt, Offered, list[str]]:
    """The chat, what may be called in it, and what was left out, in words for the client.

    Raises:
        InvalidError: naming the field.
    """
    if len(items) + len(before) > MAX_ITEMS:
        raise InvalidError(
            f"has {len(items) + len(before)} items with those that it goes on from, at most "
            f"{MAX_ITEMS} are allowed",
            param="input",
        )
    told = [(f"previous_response_id[{index}]", item) for index, item in enumerate(before)]
    told += [(f"input[{index}]", item) for index, item in enumerate(items)]
    messages, notes = messages_of(told)
    if body.instructions is not None:
        instructions = without_noise(valid_text(body.instructions))
        messages = (Message("system", instructions), *messages)
    offered = offered_of(body)
    effort = body.reasoning.effort
    is_thinking_off = effort == "none"
    prompt = ChatPrompt(
        messages,
        tools_json=offered.tools_json,
        template_kwargs_json=template_variables(
            body.chat_template_kwargs,
            thinking=False if is_thinking_off else None,
            effort=None if is_thinking_off else effort,
        ),
    )
    prompt = context.chat.fill(prompt)
    refuse_too_much([prompt], 1, param="input")
    notes = [*offered.notes, *notes]
    if body.truncation == "auto":
        notes.append(NOT_CUT)
    return prompt, offered, notes


def _refuse(body: ResponseIn) -> None:
    """What can't be done here, or not together."""
    refuse_unsupported(body)
    for name in ("conversation", "prompt"):
        if getattr(body, name) is not None:
            raise InvalidError(f"'{name}' is not supported by this server", param=name)
    for name in ("n", "n_cmpl"):
        if getattr(body, name) not in (None, 1):
            raise InvalidError("a response has one answer", param=name)
    if body.background and not body.store:
        raise InvalidError("needs 'store': nobody could ask for the answer", param="background")


def _sampling(body: ResponseIn, context: SubmitContext, options: ResponseOptions) -> SamplingParams:
    """How to pick tokens, in the form that is asked for."""
    # Zero rivals are asked for as one: the engine's 0 is "no probabilities at all".
    num_probs = max(options.top, 1) if options.logprobs else 0
    sampling = sampling_of(body, context.sampling, num_probs=num_probs)
    sampling = replace(sampling, timings_per_token=False)  # nothing here tells them
    form = _form(body.text.format)
    if form is None:
        return sampling
    if sampling.grammar is not None:
        raise InvalidError(
            f"can't be combined with '{sampling.grammar.param}'", param="text.format"
        )
    return replace(sampling, grammar=form)


def _form(given: Any) -> Grammar | None:
    param = "text.format"
    if given is None:
        return None
    kind = form_kind(given, param)
    if kind == "text":
        return None
    if kind == "json_object":
        return schema_form({}, param)
    if not isinstance(given.get("strict") or False, bool):
        raise InvalidError("must be true or false", param=f"{param}.strict")
    return schema_form(given.get("schema"), f"{param}.schema")


def _options(
    body: ResponseIn, context: SubmitContext, offered: Offered, notes: Sequence[str]
) -> ResponseOptions:
    """What the response's object repeats, and how its events are told."""
    defaults = context.sampling
    summary = body.reasoning.summary or body.reasoning.generate_summary
    logprobs = body.top_logprobs is not None or INCLUDE_LOGPROBS in body.include
    shown: dict[str, Any] = {
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "metadata": body.metadata,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "reasoning": {"effort": body.reasoning.effort, "summary": summary},
        "store": body.store,
        "temperature": _first(body.temperature, defaults.get("temperature")),
        "text": {"format": body.text.format or {"type": "text"}},
        "tool_choice": offered.choice,
        "tools": offered.shown,
        "top_logprobs": body.top_logprobs or 0,
        "top_p": _first(body.top_p, defaults.get("top_p")),
        "truncation": "disabled",
    }
    if notes:
        more = [f"{len(notes) - MAX_NOTES} more"] if len(notes) > MAX_NOTES else []
        shown["warnings"] = [*notes[:MAX_NOTES], *more]
    return ResponseOptions(
        shown=shown,
        with_summary=summary is not None,
        logprobs=logprobs,
        top=body.top_logprobs or 0,
        is_background=body.background,
        tools=offered.refs,
        places=offered.places,
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
