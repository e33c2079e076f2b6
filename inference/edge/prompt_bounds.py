"""Prompts that are refused before they are stored: too much at once, or hopeless in the context.

The engine counts tokens and has the last word; here only lengths are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable

from inference import api
from inference.protocol.prompt_sizes import prompt_chars
from inference.protocol.requests import (
    ChatPrompt,
    InfillPrompt,
    MixedPrompt,
    Prompt,
    TextPrompt,
)
from llamaweb.lib.errors import InvalidError, TooLongError

# All prompts of a request, each as often as it is answered: so much is stored for it.
MAX_REQUEST_CHARS = 4 * 1024 * 1024
# The longest pieces that vocabularies have, runs of spaces, aren't longer.
MAX_PIECE_CHARS = 128
# A prompt that may have no more tokens than this isn't worth asking for the context.
SMALL_PROMPT_TOKENS = 2048


def refuse_too_much(prompts: Iterable[Prompt], num_answers: int, *, param: str) -> None:
    """`num_answers` are made to each prompt.

    Raises:
        InvalidError: over `MAX_REQUEST_CHARS`.
    """
    refuse_so_many_chars(sum(map(prompt_chars, prompts)), num_answers, param=param)


def refuse_so_many_chars(num_chars: int, num_answers: int, *, param: str) -> None:
    """As `refuse_too_much`, of prompts that aren't written out."""
    if num_chars * num_answers <= MAX_REQUEST_CHARS:
        return
    times = f" for each of {num_answers} answers" if num_answers > 1 else ""
    raise InvalidError(
        f"has {num_chars} characters{times}, at most {MAX_REQUEST_CHARS} are allowed "
        "in one request",
        param=param,
        bound="prompt",
    )


async def refuse_hopeless(model: str, prompts: Iterable[Prompt]) -> None:
    """Refuse what can't fit whatever the vocabulary is; small prompts cost nothing.

    Raises:
        TooLongError: with the number of tokens it has at least.
        UnavailableError: Redis can't be reached.
    """
    num_tokens = max(map(_min_tokens, prompts), default=0)
    if num_tokens <= SMALL_PROMPT_TOKENS:
        return
    engine = await api.engine_status(model)
    if engine.ready and 0 < engine.max_context <= num_tokens:
        raise TooLongError(prompt_tokens=num_tokens, max_context=engine.max_context, at_least=True)


def _min_tokens(prompt: Prompt) -> int:
    if isinstance(prompt, TextPrompt):
        num_chars = len(prompt.text)
    elif isinstance(prompt, ChatPrompt):  # templates may leave out all but the contents
        num_chars = sum(len(message.content) for message in prompt.messages)
    elif isinstance(prompt, MixedPrompt):
        lengths = (len(p) // MAX_PIECE_CHARS if isinstance(p, str) else 1 for p in prompt.parts)
        return sum(lengths)
    elif isinstance(prompt, InfillPrompt):  # the rest is cut
        num_chars = len(prompt.begun)
    else:
        return len(prompt.tokens)
    return num_chars // MAX_PIECE_CHARS
