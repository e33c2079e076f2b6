"""Requests in llama-server's own shape to `GenerateRequest`s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from inference.edge.asking import SubmitContext, generations_of
from inference.edge.native.options import NativeOptions, options_to_json
from inference.edge.native.schemas import InfillIn, NativeCompletionIn, NativeGenerationIn
from inference.edge.openai.generation import (
    answers_to_each,
    asked_of,
    refuse_chat_only,
    refuse_unsupported,
    sampling_of,
    seeds_of,
)
from inference.edge.text_prompts import prompts_of
from inference.protocol.requests import GenerateRequest, InfillFile, InfillPrompt, Prompt
from inference.text.prompts import valid_text
from llamaweb.lib.ids import new_id

ID_PREFIX = "cmpl-"


def completion_requests(body: NativeCompletionIn, context: SubmitContext) -> list[GenerateRequest]:
    """The generations of a completion, `n` a prompt.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    return _requests(body, prompts_of(body.prompt), context, param="prompt")


def infill_requests(body: InfillIn, context: SubmitContext) -> list[GenerateRequest]:
    """The generations that fill a gap.

    Raises:
        InvalidError: naming the field, and the limit where there is one.
    """
    files = (InfillFile(valid_text(f.filename), valid_text(f.text)) for f in body.input_extra)
    prompt = InfillPrompt(
        valid_text(body.input_prefix),
        valid_text(body.input_suffix),
        valid_text(body.prompt),
        tuple(files),
    )
    return _requests(body, [prompt], context, param="input_prefix")


def _requests(
    body: NativeGenerationIn, prompts: Sequence[Prompt], context: SubmitContext, *, param: str
) -> list[GenerateRequest]:
    refuse_unsupported(body)
    refuse_chat_only(body)
    num_probs = body.n_probs if body.n_probs is not None else (body.logprobs or 0)
    per_prompt = answers_to_each(prompts, body, context, param=param)
    options = NativeOptions(
        stream=body.stream,
        return_progress=body.return_progress,
        return_tokens=body.return_tokens,
        top=num_probs,
        post_sampling=body.post_sampling_probs,
        fields=tuple(map(valid_text, body.response_fields or ())),
    )
    sampling = sampling_of(body, context.sampling, num_probs=num_probs)
    indices = range(per_prompt * len(prompts))
    return generations_of(
        prompts,
        asked_of(body, context, sampling),
        context,
        reply_id=new_id(ID_PREFIX),
        seeds=seeds_of(body, per_prompt),
        options_json=[options_to_json(replace(options, index=index)) for index in indices],
    )
