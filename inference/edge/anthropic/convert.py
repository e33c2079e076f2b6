"""Wire requests to protocol requests: everything a reply shows is fixed here, at submit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from inference.edge.anthropic.messages import continues, messages_of
from inference.edge.anthropic.options import ReplyOptions, options_to_json
from inference.edge.anthropic.schemas import MessagesIn, PromptIn
from inference.edge.anthropic.thinking import (
    budget_of,
    form_of,
    hides_thinking,
    thinks,
    variables_of,
)
from inference.edge.anthropic.tools import Offer, answer_of, offer_of
from inference.edge.asking import Asked, SubmitContext, generations_of
from inference.edge.prompt_bounds import refuse_too_much
from inference.edge.stops import stops_of
from inference.protocol.params import Grammar, Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, CountRequest, GenerateRequest, Lane
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.ids import new_id, new_seed

ID_PREFIX = "msg_"
SMALL_ANSWER_TOKENS = 1024
SMALL_MODELS = "haiku"  # in the name of the model that clients have small things done by
CLAUDE_CODE = "claude-cli/"  # how its User-Agent begins


def message_request(body: MessagesIn, context: SubmitContext, user_agent: str) -> GenerateRequest:
    """The generation of a message.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    offer = offer_of(body)
    prompt = _prompt(body, context, offer)
    answer = replace(answer_of(body, offer), reasoning_budget=budget_of(body))
    form = form_of(body)
    if form is not None and answer.tool_choice == "required":
        raise InvalidError("a forced call can't be combined with a form", param="tool_choice")
    picked = {"temperature": body.temperature, "top_p": body.top_p, "top_k": body.top_k}
    asked = Asked(
        sampling=_sampling(context, picked, form),
        limits=Limits(body.max_tokens, stops_of(body.stop_sequences, param="stop_sequences")),
        answer=answer,
        lane=_lane(body, offer, user_agent, has_form=form is not None),
    )
    options = ReplyOptions(hides_thinking(body), offer.warnings, offer.places)
    (request,) = generations_of(
        [prompt],
        asked,
        context,
        reply_id=new_id(ID_PREFIX),
        seeds=[new_seed()],
        options_json=[options_to_json(options)],
    )
    return request


def count_request(body: PromptIn, context: SubmitContext) -> CountRequest:
    """The count of a prompt's tokens; raises as `message_request`."""
    return CountRequest(
        generation_id=new_id("gen-"),
        model=context.model,
        owner_key=context.owner_key,
        submitted_at=context.now_at,
        deadline_at=context.deadline_at,
        account=context.account,
        prompt=_prompt(body, context, offer_of(body)),
    )


def _prompt(body: PromptIn, context: SubmitContext, offer: Offer) -> ChatPrompt:
    messages = messages_of(body)
    prompt = context.chat.fill(
        ChatPrompt(
            messages,
            tools_json=offer.tools_json,
            template_kwargs_json=variables_of(body),
            continue_final=continues(messages),
        )
    )
    refuse_too_much([prompt], 1, param="messages")
    return prompt


def _sampling(
    context: SubmitContext, picked: dict[str, Any], form: Grammar | None
) -> SamplingParams:
    """What is absent is the model's default, or stays the engine's."""
    given = {name: value for name, value in picked.items() if value is not None}
    return SamplingParams(**{**context.sampling, **given}, grammar=form)


def _lane(body: MessagesIn, offer: Offer, user_agent: str, *, has_form: bool) -> Lane:
    """What clients have done beside a chat (titles, topics, summaries of pages) waits for chats: it
    has no tools and no thoughts, and is for a small model or a small answer of Claude Code's."""
    if offer.tools_json is not None or thinks(body):
        return "interactive"
    is_small = body.max_tokens <= SMALL_ANSWER_TOKENS or has_form
    is_aside = SMALL_MODELS in (body.model or "").lower()
    is_aside = is_aside or (user_agent.startswith(CLAUDE_CODE) and is_small)
    return "background" if is_aside else "interactive"
