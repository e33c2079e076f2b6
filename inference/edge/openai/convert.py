"""Wire requests to `GenerateRequest`s: everything a reply shows is fixed here, at submit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inference.edge.asking import SubmitContext, generations_of
from inference.edge.openai.generation import (
    answers_to_each,
    asked_of,
    refuse_chat_only,
    refuse_unsupported,
    sampling_of,
    seeds_of,
)
from inference.edge.openai.messages import messages_of
from inference.edge.openai.options import ReplyOptions, options_to_json
from inference.edge.openai.schemas import ChatCompletionIn, CompletionIn, GenerationIn
from inference.edge.openai.tools import Offer, answer_of, offer_of
from inference.edge.template_variables import template_variables
from inference.edge.text_prompts import prompts_of
from inference.protocol.params import SamplingParams
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

DEFAULT_TOP_LOGPROBS = 20
ID_PREFIX = "chatcmpl-"
DEFAULT_ANSWER = AnswerParams()
REASONING = "reasoning_content"
CONTINUED = ("content", REASONING)  # parts of an answer that can be gone on with


def chat_requests(body: ChatCompletionIn, context: SubmitContext) -> list[GenerateRequest]:
    """The generations of a chat completion, one a choice.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    refuse_unsupported(body)
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidError("top_logprobs requires logprobs to be true", param="top_logprobs")
    offer = offer_of(body)
    prompt = chat_prompt(body, context, offer)
    answer = answer_of(body, prompt.tools_json)
    if prompt.tools_json and body.grammar:
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
        echo=_begun(prompt) if body.echo else "",
        echoes_reasoning=prompt.continue_reasoning and answer.splits_reasoning,
        places=offer.places,
    )
    # Zero rivals are asked for as one: the engine's 0 is "no probabilities at all".
    sampling = sampling_of(body, context.sampling, num_probs=max(num_probs, int(shows_probs)))
    if answer.tool_choice == "required" and sampling.grammar is not None:
        raise InvalidError("a forced call can't be combined with a form", param="tool_choice")
    options = replace(options, top=num_probs)
    return _requests(body, context, [prompt], sampling, options, answer)


def chat_prompt(body: ChatCompletionIn, context: SubmitContext, offer: Offer) -> ChatPrompt:
    """What the model's template gets, with the tools of `offer`.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    messages = messages_of(body.messages)
    is_thinking_off = body.reasoning_effort == "none"
    continues = _continues(body, messages)
    thinks_on = continues and _thinks_on(body, messages[-1])
    prompt = ChatPrompt(
        messages,
        tools_json=offer.tools_json,
        template_kwargs_json=template_variables(
            body.chat_template_kwargs,
            thinking=False if is_thinking_off else None,
            effort=None if is_thinking_off else body.reasoning_effort,
        ),
        continue_final=continues,
        continue_reasoning=thinks_on,
        continue_either=thinks_on and body.continue_final_message is True,
    )
    prompt = context.chat.fill(prompt)
    if not thinks_on or not prompt.is_thinking_off:
        return prompt
    if not prompt.continue_either:
        raise InvalidError(
            "reasoning is turned off, so none can be continued", param="continue_final_message"
        )
    return replace(prompt, continue_reasoning=False, continue_either=False)


def text_requests(body: CompletionIn, context: SubmitContext) -> list[GenerateRequest]:
    """The generations of a text completion, `n` a prompt.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    refuse_unsupported(body)
    refuse_chat_only(body)
    prompts = _texts(body)
    num_probs = body.n_probs if body.n_probs is not None else (body.logprobs or 0)
    # OpenAI's 0 asks for the tokens alone, llama-server's for nothing.
    shows_probs = num_probs > 0 or (body.n_probs is None and body.logprobs is not None)
    options = ReplyOptions(
        kind="text",
        include_usage=body.stream_options.include_usage,
        return_progress=body.return_progress,
        logprobs=shows_probs,
        post_sampling=body.post_sampling_probs,
        top=num_probs,
    )
    if body.echo and shows_probs:
        raise InvalidError(
            "can't be combined with log probabilities: the prompt's aren't computed", param="echo"
        )
    sampling = sampling_of(body, context.sampling, num_probs=max(num_probs, int(shows_probs)))
    return _requests(body, context, prompts, sampling, options)


def _requests(
    body: GenerationIn,
    context: SubmitContext,
    prompts: Sequence[Prompt],
    sampling: SamplingParams,
    options: ReplyOptions,
    answer: AnswerParams = DEFAULT_ANSWER,
) -> list[GenerateRequest]:
    param = "messages" if options.kind == "chat" else "prompt"
    per_prompt = answers_to_each(prompts, body, context, param=param)
    count = per_prompt * len(prompts)
    asked = asked_of(body, context, sampling, answer)
    options = replace(options, count=count, per_prompt=per_prompt)
    once = options.places  # of the first one is enough
    mine = [replace(options, index=i, places=() if i else once) for i in range(count)]
    if isinstance(body, CompletionIn) and body.echo:
        mine = [replace(o, echo=_shown(prompts[o.index // per_prompt])) for o in mine]
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
    if wanted not in (None, True, False, *CONTINUED):
        raise InvalidError(
            f"must be true, false or one of {', '.join(CONTINUED)}", param="continue_final_message"
        )
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


def _begun(prompt: ChatPrompt) -> str:
    """The start of the answer that is continued, "" without one."""
    if not prompt.continue_final:
        return ""
    last = prompt.messages[-1]
    return last.reasoning.rstrip() if prompt.continue_reasoning else last.content


def _thinks_on(body: ChatCompletionIn, last: Message) -> bool:
    """Whether the reasoning of the last message goes on; true leaves it to what there is of it, and
    to the model."""
    wanted = body.continue_final_message
    if wanted == REASONING:
        if last.content or not last.reasoning.strip():
            raise InvalidError(
                "the last message must have reasoning and no content yet",
                param="continue_final_message",
            )
        return True
    return wanted is True and bool(last.reasoning.strip()) and not last.content


def _texts(body: CompletionIn) -> list[Prompt]:
    """The prompts; with a `suffix` what stands in front of a gap."""
    prompts = prompts_of(body.prompt)
    for name in ("suffix", "echo"):
        if getattr(body, name) and not all(isinstance(p, TextPrompt) for p in prompts):
            raise InvalidError("is possible with prompts of text only", param=name)
    if not body.suffix:
        return prompts
    suffix = valid_text(body.suffix)
    return [InfillPrompt(p.text, suffix) for p in prompts if isinstance(p, TextPrompt)]


def _shown(prompt: Prompt) -> str:
    """What an echo of it says; other prompts than texts are refused before."""
    if isinstance(prompt, InfillPrompt):
        return prompt.prefix
    return prompt.text if isinstance(prompt, TextPrompt) else ""
