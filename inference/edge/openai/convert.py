"""Wire requests to `GenerateRequest`s: everything a reply shows is fixed here, at submit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from inference.edge.asking import Asked, SubmitContext, generations_of
from inference.edge.openai.adapters import adapters_of
from inference.edge.openai.generation import (
    context_of,
    limits_of,
    num_choices_of,
    refuse_unsupported,
    sampling_of,
    seeds_of,
)
from inference.edge.openai.messages import messages_of
from inference.edge.openai.options import ReplyOptions, options_to_json
from inference.edge.openai.schemas import ChatCompletionIn, CompletionIn, GenerationIn
from inference.edge.openai.tools import answer_of, tools_of
from inference.edge.prompt_bounds import refuse_too_much
from inference.edge.template_variables import template_variables
from inference.protocol.params import SamplingParams
from inference.protocol.requests import (
    AnswerParams,
    ChatPrompt,
    GenerateRequest,
    Message,
    MixedPrompt,
    Prompt,
    TextPrompt,
    TokenPrompt,
)
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.ids import new_id

MAX_CHOICES = 64  # prompts times n
DEFAULT_TOP_LOGPROBS = 20
MAX_TEXT_PARTS = 1024  # of a prompt of ids and texts; each is tokenised by itself
ID_PREFIX = "chatcmpl-"
DEFAULT_ANSWER = AnswerParams()


def chat_requests(body: ChatCompletionIn, context: SubmitContext) -> list[GenerateRequest]:
    """The generations of a chat completion, one a choice.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    refuse_unsupported(body)
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidError("top_logprobs requires logprobs to be true", param="top_logprobs")
    messages = messages_of(body.messages)
    continues = _continues(body, messages)
    is_thinking_off = body.reasoning_effort == "none"
    tools_json = tools_of(body)
    prompt = ChatPrompt(
        messages,
        tools_json=tools_json,
        template_kwargs_json=template_variables(
            body.chat_template_kwargs,
            thinking=False if is_thinking_off else None,
            effort=None if is_thinking_off else body.reasoning_effort,
        ),
        continue_final=continues,
    )
    answer = answer_of(body, tools_json)
    if tools_json and body.grammar:
        raise InvalidError("can't be combined with tools", param="grammar")
    num_probs = body.n_probs or 0
    shows_probs = body.logprobs or num_probs > 0
    if body.logprobs:
        num_probs = DEFAULT_TOP_LOGPROBS if body.top_logprobs is None else body.top_logprobs
    options = ReplyOptions(
        kind="chat",
        include_usage=body.stream_options.include_usage,
        return_progress=body.return_progress,
        logprobs=shows_probs,
        post_sampling=body.post_sampling_probs,
        echo=messages[-1].content if body.echo and continues else "",
    )
    # Zero rivals are asked for as one: the engine's 0 is "no probabilities at all".
    sampling = sampling_of(body, context.sampling, num_probs=max(num_probs, int(shows_probs)))
    if answer.tool_choice == "required" and sampling.grammar is not None:
        raise InvalidError("a forced call can't be combined with a form", param="tool_choice")
    prompt = context.chat.fill(prompt)
    options = replace(options, top=num_probs)
    return _requests(body, context, [prompt], sampling, options, answer)


def text_requests(body: CompletionIn, context: SubmitContext) -> list[GenerateRequest]:
    """The generations of a text completion, `n` a prompt.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    refuse_unsupported(body)
    for name in ("tools", "tool_choice"):
        if getattr(body, name) not in (None, [], "none", "auto"):
            raise InvalidError("is possible in chats only", param=name)
    prompts = _prompts(body.prompt)
    num_probs = body.n_probs if body.n_probs is not None else (body.logprobs or 0)
    options = ReplyOptions(
        kind="text",
        return_progress=body.return_progress,
        logprobs=num_probs > 0,
        post_sampling=body.post_sampling_probs,
        top=num_probs,
    )
    sampling = sampling_of(body, context.sampling, num_probs=num_probs)
    return _requests(body, context, prompts, sampling, options)


def _requests(
    body: GenerationIn,
    context: SubmitContext,
    prompts: Sequence[Prompt],
    sampling: SamplingParams,
    options: ReplyOptions,
    answer: AnswerParams = DEFAULT_ANSWER,
) -> list[GenerateRequest]:
    per_prompt = num_choices_of(body, context.num_slots)
    count = per_prompt * len(prompts)
    if count > MAX_CHOICES:
        raise InvalidError(
            f"asks for {count} completions, at most {MAX_CHOICES} are allowed", param="prompt"
        )
    param = "messages" if options.kind == "chat" else "prompt"
    refuse_too_much(prompts, per_prompt, param=param)
    asked = Asked(
        sampling=sampling,
        limits=limits_of(body),
        context=context_of(body),
        preserved_tokens=tuple(valid_text(text) for text in body.preserved_tokens or ()),
        adapters=adapters_of(body.lora, context.num_adapters),
        answer=answer,
    )
    mine = [replace(options, index=i, count=count, per_prompt=per_prompt) for i in range(count)]
    return generations_of(
        prompts,
        asked,
        context,
        reply_id=new_id(ID_PREFIX),
        seeds=seeds_of(body, per_prompt),
        options_json=list(map(options_to_json, mine)),
    )


def _continues(body: ChatCompletionIn, messages: Sequence[Message]) -> bool:
    """Whether the last message is the start of the answer."""
    wanted = body.continue_final_message
    if wanted not in (None, True, False, "content"):
        raise InvalidError("must be true, false or 'content'", param="continue_final_message")
    if wanted and body.add_generation_prompt:
        raise InvalidError(
            "can't be combined with add_generation_prompt", param="continue_final_message"
        )
    is_answer = bool(messages) and messages[-1].role == "assistant"
    if wanted and not is_answer:
        raise InvalidError(
            "the last message must be the assistant's", param="continue_final_message"
        )
    continues = is_answer and wanted is not False and body.add_generation_prompt is not True
    if continues and messages[-1].tool_calls:
        raise InvalidError("an answer with tool calls can't be continued", param="messages")
    if body.add_generation_prompt is False and not continues:
        raise InvalidError(
            "false is possible only if the last message is the assistant's",
            param="add_generation_prompt",
        )
    return continues


def _prompts(prompt: Any) -> list[Prompt]:
    """All prompts of a request: one text, one list with ids in it, or a list of such."""
    if prompt is None:
        raise InvalidError('"prompt" is required', param="prompt")
    if prompt == []:
        raise InvalidError('"prompt" must not be empty', param="prompt")
    is_many = isinstance(prompt, list) and not any(map(_is_int, prompt))
    items = prompt if is_many else [prompt]
    if len(items) > MAX_CHOICES:
        raise InvalidError(
            f"has {len(items)} prompts, at most {MAX_CHOICES} are allowed", param="prompt"
        )
    paths = [f"prompt[{i}]" if is_many else "prompt" for i in range(len(items))]
    return [_prompt(item, path) for item, path in zip(items, paths, strict=True)]


def _prompt(item: Any, path: str) -> Prompt:
    if isinstance(item, dict) and isinstance(item.get("prompt_string"), str):
        if item.get("multimodal_data"):
            raise InvalidError(
                "Multimodal data provided, but model does not support multimodal requests.",
                param=f"{path}.multimodal_data",
            )
        item = item["prompt_string"]
    if isinstance(item, str):
        return TextPrompt(valid_text(item))
    if isinstance(item, list) and item and all(_is_int(token) for token in item):
        return TokenPrompt(tuple(item))
    if isinstance(item, list) and item and all(_is_int(p) or isinstance(p, str) for p in item):
        return _mixed(item, path)
    raise InvalidError("must be text or a list of token ids and texts", param=path)


def _mixed(parts: list[int | str], path: str) -> Prompt:
    num_texts = sum(isinstance(part, str) for part in parts)
    if num_texts > MAX_TEXT_PARTS:
        raise InvalidError(
            f"has {num_texts} texts between token ids, at most {MAX_TEXT_PARTS} are allowed",
            param=path,
        )
    return MixedPrompt(tuple(valid_text(p) if isinstance(p, str) else p for p in parts))


def _is_int(value: Any) -> bool:
    return type(value) is int
