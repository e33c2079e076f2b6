"""What a request may use at most is kept for it before, and what it used is counted after."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from django.conf import settings

from inference.protocol.accounts import Account
from inference.protocol.prompt_sizes import prompt_chars
from inference.protocol.requests import (
    EmbedRequest,
    EngineRequest,
    GenerateRequest,
    MixedPrompt,
    Prompt,
    RerankRequest,
    TokenPrompt,
)
from inference.registry.usage import usage_hours
from llamaweb.accounts.limits.bounds import allowance_here, bounds_now
from llamaweb.accounts.limits.counters import Subject, reserve, settle

CHARS_A_TOKEN: Final = 4  # about, in most languages and vocabularies
USUAL_ANSWER: Final = 1024  # tokens kept for an answer without a bound of its own
SETTLE_S: Final = 60.0  # beyond the deadline, until the ledger's job has settled at the latest


def has_quota() -> bool:
    """Whether anything is limited that has to be reserved."""
    return bounds_now().has_quota


def quota_reserve(account: Account, request: EngineRequest) -> None:
    """Keep what `request` may use at most; tells the caller's allowance what is left. Blocks.

    Raises:
        BusyError: a limit is reached.
        UnavailableError: Redis can't be reached.
    """
    subject = Subject(account.user_id, account.key_id)
    left = reserve(
        subject,
        bounds_now(),
        request.generation_id,
        tokens=expected_tokens(request),
        until_at=max(time.time(), request.deadline_at) + SETTLE_S,
        is_answer=isinstance(request, GenerateRequest),
        history=partial(usage_hours, subject),
    )
    allowance = allowance_here.get()
    if allowance is not None and left.limit >= 0:
        allowance.tokens = left


def quota_settle(account: Account, generation_id: str, tokens: int) -> None:
    """Count what it really used. Blocks.

    Raises:
        UnavailableError: Redis can't be reached.
    """
    subject = Subject(account.user_id, account.key_id)
    settle(subject, bounds_now(), generation_id, tokens=tokens)


def expected_tokens(request: EngineRequest) -> int:
    """Tokens of prompt and answer, as far as anybody knows before."""
    if isinstance(request, GenerateRequest):
        most = request.limits.max_tokens
        answer = USUAL_ANSWER if most is None else most
        if settings.MAX_REQUEST_TOKENS:
            answer = min(answer, settings.MAX_REQUEST_TOKENS)
        return _prompt_tokens(request.prompt) + answer
    if isinstance(request, EmbedRequest):
        return sum(map(_prompt_tokens, request.inputs))
    if isinstance(request, RerankRequest):
        query = len(request.query)
        return sum(_tokens(query + len(document)) for document in request.documents)
    return 0


def _prompt_tokens(prompt: Prompt) -> int:
    if isinstance(prompt, TokenPrompt):
        return len(prompt.tokens)
    if isinstance(prompt, MixedPrompt):
        return sum(_tokens(len(part)) if isinstance(part, str) else 1 for part in prompt.parts)
    return _tokens(prompt_chars(prompt))


def _tokens(chars: int) -> int:
    return chars // CHARS_A_TOKEN + 1
