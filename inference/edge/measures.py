"""Counts, times and probabilities as llama-server's families of routes show them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from inference.edge.steps import Begin, End, Piece, Prefill, Step
from inference.protocol.events import Timings, TokenLogprobs, TokenProb, Usage

Body: TypeAlias = dict[str, Any]
MS_PER_S = 1000.0


def usage_body(usage: Usage) -> Body:
    """`usage` on the wire."""
    return {
        "completion_tokens": usage.completion_tokens,
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def timings_body(usage: Usage, timings: Timings) -> Body:
    """`timings` on the wire. The first token comes with the prompt, so rates leave it out."""
    prompt_n = max(0, usage.prompt_tokens - usage.cached_tokens)
    steps = max(0, usage.completion_tokens - 1)
    prompt_ms, predicted_ms = _finite(timings.prefill_ms), _finite(timings.decode_ms)
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": _ratio(prompt_ms, prompt_n),
        "prompt_per_second": _ratio(prompt_n * MS_PER_S, prompt_ms),
        "predicted_n": usage.completion_tokens,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": _ratio(predicted_ms, steps),
        "predicted_per_second": _ratio(steps * MS_PER_S, predicted_ms),
    }


class TokenTimes:
    """How far a generation is; `timings` of its pieces, where they are wanted. `num_tokens`: so
    far."""

    def __init__(self) -> None:
        self._begin = Begin()
        self.num_tokens = 0

    @property
    def prompt_len(self) -> int:
        """Tokens of the prompt, 0 before they are known."""
        return self._begin.prompt_tokens

    def see(self, step: Step) -> None:
        """Count what a step says, before its chunk is made."""
        if isinstance(step, Begin):
            self._begin = step
        elif isinstance(step, Piece | End):
            self.num_tokens += len(step.token_ids)

    def fields(self, piece: Piece) -> Body:
        """What its chunk has more; nothing where the times aren't known."""
        if piece.timings is None:
            return {}
        begin = self._begin
        usage = Usage(begin.prompt_tokens, self.num_tokens, begin.cached_tokens)
        return {"timings": timings_body(usage, piece.timings)}


def progress_body(step: Prefill) -> Body:
    """`prompt_progress` on the wire."""
    return {"total": step.total, "cache": step.cached, "processed": step.done}


def prob_items(items: Sequence[TokenLogprobs], top: int, *, post_sampling: bool) -> list[Body]:
    """Tokens with `top` rivals each: with their log probabilities, or with their probabilities
    after sampling."""
    body = _prob_item if post_sampling else _logprob_item
    return [body(item, top) for item in items]


def token_text(prob: TokenProb) -> str:
    """The text of a token, without bytes of characters that it doesn't hold whole."""
    return bytes(prob.token_bytes).decode("utf-8", "ignore")


def _logprob_item(item: TokenLogprobs, top: int) -> Body:
    rivals = [_logprob_body(prob) for prob in item.top[:top]]
    return {**_logprob_body(item.chosen), "top_logprobs": rivals}


def _prob_item(item: TokenLogprobs, top: int) -> Body:
    rivals = [_prob_body(prob) for prob in item.top[:top]]
    return {**_prob_body(item.chosen), "top_probs": rivals}


def _logprob_body(prob: TokenProb) -> Body:
    return {**_token_body(prob), "logprob": prob.logprob}


def _prob_body(prob: TokenProb) -> Body:
    return {**_token_body(prob), "prob": min(1.0, math.exp(prob.logprob))}


def _token_body(prob: TokenProb) -> Body:
    return {"id": prob.token_id, "token": token_text(prob), "bytes": list(prob.token_bytes)}


def _finite(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0


def _ratio(value: float, by: float) -> float:
    return _finite(value / by) if by > 0 else 0.0
