"""Wire requests to `GenerateRequest`s: everything a reply shows is fixed here, at submit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from inference.edge.asking import Asked, SubmitContext, generations_of
from inference.edge.ollama.messages import chat_messages, refuse_images
from inference.edge.ollama.options import (
    ReplyOptions,
    form_of,
    generation_of,
    options_to_json,
    reply_options,
    thinking_of,
)
from inference.edge.ollama.schemas import ChatIn, GenerateIn, OllamaGenerationIn
from inference.edge.openai.generation import context_of, limits_of, sampling_of, seeds_of
from inference.edge.openai.schemas import ChatCompletionIn
from inference.edge.openai.tools import answer_of, offer_of
from inference.edge.prompt_bounds import refuse_too_much
from inference.protocol.requests import (
    AnswerParams,
    ChatPrompt,
    GenerateRequest,
    InfillPrompt,
    Message,
    Prompt,
    TextPrompt,
)
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.ids import new_id

ID_PREFIX: Final = "ollama-"
DEFAULT_ANSWER: Final = AnswerParams()


def chat_request(body: ChatIn, context: SubmitContext) -> GenerateRequest:
    """The generation of a chat.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    messages = chat_messages(body.messages)
    continues = messages[-1].role == "assistant"
    if continues and messages[-1].tool_calls:
        raise InvalidError("an answer with tool calls can't be continued", param="messages")
    shared = ChatCompletionIn(messages=[], tools=body.tools)
    tools_json = offer_of(shared).tools_json
    prompt = ChatPrompt(
        messages,
        tools_json=tools_json,
        template_kwargs_json=thinking_of(body.think),
        continue_final=continues,
    )
    options = reply_options(body, "chat")
    prompt = context.chat.fill(prompt)
    return _request(body, context, prompt, options, "messages", answer_of(shared, tools_json))


def generate_request(body: GenerateIn, context: SubmitContext) -> GenerateRequest:
    """The generation of a prompt.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    if body.template:
        raise InvalidError(
            "a request can't bring its own; use 'raw' with a prompt that is written already",
            param="template",
        )
    refuse_images(body.images, "images")
    if body.raw and body.system:
        raise InvalidError("can't be combined with 'raw'", param="system")
    options = reply_options(body, "generate")
    return _request(body, context, _prompt(body, context), options, "prompt")


def _prompt(body: GenerateIn, context: SubmitContext) -> Prompt:
    text = valid_text(body.prompt)
    if body.suffix:
        if body.system:
            raise InvalidError("can't be combined with 'suffix'", param="system")
        return InfillPrompt(text, valid_text(body.suffix))
    if body.raw:
        return TextPrompt(text)
    system = (Message("system", valid_text(body.system)),) if body.system else ()
    chat = ChatPrompt(
        (*system, Message("user", text)), template_kwargs_json=thinking_of(body.think)
    )
    return context.chat.fill(chat)


def _request(
    body: OllamaGenerationIn,
    context: SubmitContext,
    prompt: Prompt,
    options: ReplyOptions,
    param: str,
    answer: AnswerParams = DEFAULT_ANSWER,
) -> GenerateRequest:
    refuse_too_much([prompt], 1, param=param)
    shared = generation_of(body.options)
    # Zero rivals are asked for as one: the engine's 0 is "no probabilities at all".
    num_probs = max(options.top, 1) if options.logprobs else 0
    with _in_options():
        sampling = sampling_of(shared, context.sampling, num_probs=num_probs)
        limits = limits_of(shared)
    asked = Asked(
        sampling=replace(sampling, grammar=form_of(body.format)),
        limits=limits,
        context=context_of(shared),
        answer=answer,
    )
    (request,) = generations_of(
        [prompt],
        asked,
        context,
        reply_id=new_id(ID_PREFIX),
        seeds=seeds_of(shared, 1),
        options_json=[options_to_json(options)],
    )
    return request


@contextlib.contextmanager
def _in_options() -> Iterator[None]:
    """Fields are named where they stand."""
    try:
        yield
    except InvalidError as error:
        raise InvalidError(error.message, param=f"options.{error.param}") from error
