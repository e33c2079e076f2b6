"""What is checked and built before a sequence gets a seat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.engine.adapters import AdapterPlan, adapter_plan, chosen_scales
from inference.engine.backend import Backend
from inference.engine.contract import SequenceRequest
from inference.engine.host_cache import Belonging
from inference.engine.picks import Sampler
from inference.engine.prefix import Activation, CacheKey, Prefix
from inference.engine.samplers import build_sampler
from inference.engine.shifting import MAX_SHIFTED_CONTEXTS
from inference.engine.stopping import Answer, Ended
from llamaweb.lib.errors import BusyError, InvalidError, NotSupportedError, TooLongError

RETRY_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with everything it needs but a slot; see `Sequence` for the fields."""

    target: NDArray[np.int32]
    prefix: Prefix
    belonging: Belonging
    adapters: AdapterPlan
    sampler: Sampler
    answer: Answer
    replayed_end: Ended | None
    replay: tuple[int, ...]


def refuse_busy(request: SequenceRequest, active: Mapping[str, object], free_slots: int) -> None:
    """Raise BusyError without a free slot, or when `request` must be alone and isn't."""
    if request.generation_id in active:
        raise InvalidError("this generation is running already", param="generation_id")
    if free_slots == 0 or (request.alone and active):
        raise BusyError("no free slot", reason="no_slot", retry_after_s=RETRY_AFTER_S)


def refuse_invalid(request: SequenceRequest, backend: Backend) -> None:
    """Raise TooLongError or InvalidError for what can't be computed here."""
    if len(request.tokens) >= backend.max_context:
        raise TooLongError(prompt_tokens=len(request.tokens), max_context=backend.max_context)
    if not request.tokens:
        raise InvalidError("the prompt has no tokens", param="prompt")
    published = request.resume.token_ids if request.resume else ()
    vocab_len = backend.tokenizer.vocab_len
    for tokens in (request.tokens, published):
        if tokens and not (min(tokens) >= 0 and max(tokens) < vocab_len):
            raise InvalidError(f"token ids must be between 0 and {vocab_len - 1}", param="prompt")
    chosen_scales(backend.adapters, request.adapters)
    if request.task != "generate":
        raise NotSupportedError("this engine generates text only")
    max_tokens = request.limits.max_tokens
    if max_tokens is not None and max_tokens < 0:
        raise InvalidError("max_tokens must be 0 or more", param="max_tokens")


def prepare(
    request: SequenceRequest, backend: Backend, *, shifts: bool = False, special: bool = False
) -> Prepared:
    """Build sampler and text rules, and replay what an earlier engine published.

    `shifts`: a full context doesn't end the answer. `special`: special tokens are shown.

    Raises:
        InvalidError: the sampling parameters can't be built.
    """
    sampler = build_sampler(request, backend)
    room = backend.max_context - len(request.tokens)
    if shifts:
        room = MAX_SHIFTED_CONTEXTS * backend.max_context
    answer = Answer(
        backend.tokenizer,
        request.limits,
        room=room,
        preserved=request.preserved,
        special=special,
    )
    try:
        ended = _replay(request, sampler, answer)
    except BaseException:
        sampler.close()
        raise
    published = request.resume.token_ids if request.resume else ()
    replay: tuple[int, ...] = ()
    if not sampler.replays_by_count:
        # Its state depends on logits: the published tokens are decoded again, one a step.
        published, replay = (), published
    if ended is None and len(request.tokens) + len(published) >= backend.max_context:
        ended = Ended("length")  # what a shifted context held can't be told from its tokens
        published = ()
    target = np.array(request.tokens + published, np.int32)
    plan = adapter_plan(backend.adapters, request.adapters, request.tokens)
    belonging = _belonging(request, backend, plan)
    prefix = belonging.prefix_of(target)
    return Prepared(target, prefix, belonging, plan, sampler, answer, ended, replay)


def _belonging(request: SequenceRequest, backend: Backend, plan: AdapterPlan) -> Belonging:
    """What its text is kept under in the prompt cache."""
    adapters = tuple((backend.adapters[number].digest, scale) for number, scale in plan.before)
    activated = (item for item in plan.after if item not in plan.before)
    activation = next(
        (Activation.of(plan.start, backend.adapters[n].digest, scale) for n, scale in activated),
        None,
    )
    return Belonging(
        CacheKey(backend.fingerprint, adapters),
        request.cache_scope,
        request.owner_key,
        request.context.conversation,
        activation,
    )


def _replay(request: SequenceRequest, sampler: Sampler, answer: Answer) -> Ended | None:
    if request.resume is None:
        return None
    if sampler.replays_by_count:
        sampler.skip(request.resume.draws)
    for token in request.resume.token_ids:
        if sampler.replays_by_count:
            sampler.accept(token)
        _, ended = answer.push(token)  # its text was published with the token
        if ended is not None:
            return ended
    return None
