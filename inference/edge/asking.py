"""Who asks for what, and for how long: what routes of every API family find out first."""

from __future__ import annotations

import functools
import importlib.metadata
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from inference import api
from inference.edge.families import family_of
from inference.edge.resumable.wish import stream_id_of
from inference.protocol.accounts import Account
from inference.protocol.params import ContextParams, Limits, SamplingParams
from inference.protocol.requests import AnswerParams, GenerateRequest, Lane, Prompt, ReplyInfo
from inference.registry.chat_defaults import ChatDefaults
from inference.registry.selectors import Task
from llamaweb.accounts.caller import Caller
from llamaweb.lib.errors import InvalidError, UnavailableError
from llamaweb.lib.ids import new_id

AUTOLOAD = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True, slots=True)
class SubmitContext:
    """Who asks, for which model, when. `account`: who has to answer for it, for every request that
    is submitted in their name. `timeout_s`: how long the request may take in all;
    `num_adapters`: of the model; `sampling`: its defaults, by name; `chat`: those of chats.
    `stream_id`: see `ReplyInfo`."""

    owner_key: str
    cache_scope: str
    model: str
    num_slots: int
    now_at: float
    timeout_s: float
    num_adapters: int = 0
    sampling: Mapping[str, Any] = field(default_factory=dict)
    chat: ChatDefaults = field(default_factory=ChatDefaults)
    account: str = ""
    stream_id: str = ""

    @property
    def deadline_at(self) -> float:
        """When the request ends wherever it is."""
        return self.now_at + self.timeout_s


@dataclass(frozen=True, slots=True)
class Asked:
    """All of a request but its prompt, its seed and how it is shown."""

    sampling: SamplingParams
    limits: Limits = field(default_factory=Limits)
    context: ContextParams = field(default_factory=ContextParams)
    preserved_tokens: tuple[str, ...] = ()
    adapters: tuple[tuple[int, float], ...] | None = None
    answer: AnswerParams = field(default_factory=AnswerParams)
    lane: Lane = "interactive"


def caller_of(request: HttpRequest) -> Caller:
    """Who asks; set by `ApiKeyAuth`."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    return caller


async def submit_context(
    request: HttpRequest, model: str | None, *, task: Task = "answers"
) -> SubmitContext:
    """What a request for `model` (the default one if None) is submitted with; `task`: what it is to
    do.

    Raises:
        NotFoundError: there is no such model for the caller.
        UnavailableError: it is unloaded, or not ready and the client doesn't want to wait.
        WrongModelError: it is made for something else.
        InvalidError: `?autoload` is no boolean.
    """
    caller = caller_of(request)
    info = await api.model_resolve_for(caller.user_id, model, caller.model_names)
    api.refuse_other_task(info, task)
    api.refuse_unloaded(info)
    if not _autoload(request) and not (await api.engine_status(info.name)).ready:
        raise UnavailableError(api.not_loaded(info.name))
    return SubmitContext(
        owner_key=caller.owner_key,
        cache_scope=caller.cache_scope,
        model=info.name,
        num_slots=info.num_slots,
        now_at=time.time(),
        timeout_s=settings.REQUEST_TIMEOUT_S,
        num_adapters=info.num_adapters,
        sampling=info.sampling,
        chat=info.chat,
        account=account_of(request).text(),
        stream_id=stream_id_of(request),
    )


def account_of(request: HttpRequest) -> Account:
    """Who has to answer for what is asked, and by which API."""
    caller = caller_of(request)
    return Account(caller.user_id, caller.key_id or 0, family_of(request.path_info))


def generations_of(
    prompts: Sequence[Prompt],
    asked: Asked,
    context: SubmitContext,
    *,
    reply_id: str,
    seeds: Sequence[int],
    options_json: Sequence[str],
) -> list[GenerateRequest]:
    """One generation for each of `options_json`, what the family's renderer needs of it; prompts
    get `len(seeds)` answers each, in a row. All together they have LLAMAWEB_MAX_REQUEST_TOKENS."""
    limits = _bounded(asked.limits, len(options_json))
    return [
        GenerateRequest(
            generation_id=new_id("gen-"),
            model=context.model,
            owner_key=context.owner_key,
            cache_scope=context.cache_scope,
            prompt=prompts[index // len(seeds)],
            seed=seeds[index % len(seeds)],
            submitted_at=context.now_at,
            deadline_at=context.deadline_at,
            lane=asked.lane,
            sampling=asked.sampling,
            limits=limits,
            context=asked.context,
            preserved_tokens=asked.preserved_tokens,
            adapters=asked.adapters,
            answer=asked.answer,
            account=context.account,
            reply=ReplyInfo(
                reply_id=reply_id,
                created_at=int(context.now_at),
                model_name=context.model,
                fingerprint=fingerprint(),
                options_json=options,
                stream_id=context.stream_id,
            ),
        )
        for index, options in enumerate(options_json)
    ]


def _bounded(limits: Limits, num_answers: int) -> Limits:
    if not settings.MAX_REQUEST_TOKENS:
        return limits
    most = max(1, settings.MAX_REQUEST_TOKENS // num_answers)
    if limits.max_tokens is not None:
        most = min(most, limits.max_tokens)
    return replace(limits, max_tokens=most)


def ping_s(asked_s: int | None = None) -> float | None:
    """Seconds of silence before a stream says that it lives; -1 and 0: never."""
    interval = settings.SSE_PING_S if asked_s is None else asked_s
    return float(interval) if interval > 0 else None


@functools.cache
def fingerprint() -> str:
    """Names the build that computes: the same seed gives the same text only under the same one."""
    return f"llama-cpp-python-{importlib.metadata.version('llama-cpp-python')}"


def _autoload(request: HttpRequest) -> bool:
    """Whether the request waits for a model that no engine has ready."""
    wanted = AUTOLOAD.get(request.GET.get("autoload", "true"))
    if wanted is None:
        raise InvalidError("must be true, false, 1 or 0", param="autoload")
    return wanted
