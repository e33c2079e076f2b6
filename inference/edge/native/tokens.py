"""What a model's vocabulary and chat template say, in llama-server's shapes."""

from __future__ import annotations

from typing import Any

from inference.edge.asking import SubmitContext
from inference.edge.native.schemas import DetokenizeIn, TokenizeIn
from inference.edge.openai.convert import chat_prompt
from inference.edge.openai.schemas import ChatCompletionIn
from inference.edge.openai.tools import offer_of
from inference.edge.prompt_bounds import refuse_hopeless, refuse_too_much
from inference.edge.utilities import utility_answer
from inference.protocol.requests import (
    ChatPrompt,
    CountRequest,
    DetokenizeRequest,
    RenderRequest,
    TokenizeRequest,
)
from inference.protocol.results import CountResult, DetokenizeResult, RenderResult, TokenizeResult
from inference.text.prompts import MAX_TEXT_BYTES, valid_text
from llamaweb.lib.errors import InvalidError
from llamaweb.lib.ids import new_id

Body = dict[str, Any]
ID_PREFIX = "util-"


def utility_fields(context: SubmitContext) -> Body:
    """What all requests have that need no slot."""
    return {
        "generation_id": new_id(ID_PREFIX),
        "model": context.model,
        "owner_key": context.owner_key,
        "submitted_at": context.now_at,
        "deadline_at": context.deadline_at,
    }


async def tokenize(body: TokenizeIn, context: SubmitContext) -> Body:
    """`{"tokens"}`: ids, or `{"id", "piece"}` each.

    Raises:
        InvalidError: over `MAX_TEXT_BYTES`.
    """
    text = valid_text(body.content)
    num_bytes = len(text.encode())
    if num_bytes > MAX_TEXT_BYTES:
        raise InvalidError(
            f"has {num_bytes} bytes of UTF-8, at most {MAX_TEXT_BYTES} are allowed", param="content"
        )
    request = TokenizeRequest(
        **utility_fields(context),
        text=text,
        add_special=body.add_special,
        parse_special=body.parse_special,
        with_pieces=body.with_pieces,
    )
    result = await utility_answer(request, TokenizeResult)
    if not body.with_pieces:
        return {"tokens": list(result.tokens)}
    pairs = zip(result.tokens, result.pieces, strict=True)
    return {"tokens": [{"id": token, "piece": _shown(piece)} for token, piece in pairs]}


async def detokenize(body: DetokenizeIn, context: SubmitContext) -> Body:
    """`{"content"}`.

    Raises:
        InvalidError: no such token, or too much text.
    """
    request = DetokenizeRequest(**utility_fields(context), tokens=tuple(body.tokens))
    result = await utility_answer(request, DetokenizeResult)
    return {"content": result.text}


async def apply_template(body: ChatCompletionIn, context: SubmitContext) -> Body:
    """`{"prompt"}`.

    Raises:
        InvalidError: the messages are none, or the template refuses them.
    """
    request = RenderRequest(**utility_fields(context), prompt=_prompt(body, context))
    result = await utility_answer(request, RenderResult)
    return {"prompt": result.text}


async def count_tokens(body: ChatCompletionIn, context: SubmitContext) -> Body:
    """`{"input_tokens"}` of a chat.

    Raises:
        InvalidError: the messages are none, or the template refuses them.
        TooLongError: they don't fit the context.
    """
    prompt = _prompt(body, context)
    await refuse_hopeless(context.model, [prompt])
    request = CountRequest(**utility_fields(context), prompt=prompt)
    result = await utility_answer(request, CountResult)
    return {"input_tokens": result.prompt_tokens, "object": "response.input_tokens"}


def _prompt(body: ChatCompletionIn, context: SubmitContext) -> ChatPrompt:
    prompt = chat_prompt(body, context, offer_of(body))
    refuse_too_much([prompt], 1, param="messages")
    return prompt


def _shown(piece: str | tuple[int, ...]) -> str | list[int]:
    return piece if isinstance(piece, str) else list(piece)
