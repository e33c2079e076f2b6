"""LoRA adapters: which of them a request uses, and from where on each acts.

An activated one (aLoRA) acts from its invocation tokens on, where these stand last in the prompt,
and not at all in a prompt without them. What is computed before them is as without the adapter,
so it can be shared with requests that don't use it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from inference.protocol.params import MAX_ADAPTER_SCALE
from llamaweb.lib.errors import InvalidError

Scales: TypeAlias = tuple[
    tuple[int, float], ...
]  # (number in the backend's list, scale), ascending


@dataclass(frozen=True, slots=True)
class Adapter:
    """A loaded adapter. `scale`: for requests that choose none; `digest`: of its file;
    `task_name` and `prompt_prefix`: what its file says of its use; `invocation`: token ids of an
    activated one, and their text."""

    name: str
    digest: str
    scale: float = 1.0
    task_name: str = ""
    prompt_prefix: str = ""
    invocation: tuple[int, ...] = ()
    invocation_text: str = ""


@dataclass(frozen=True, slots=True)
class AdapterPlan:
    """`before` are in use for the first `start` tokens of a sequence, `after` from there on."""

    before: Scales = ()
    after: Scales = ()
    start: int = 0


def told(adapters: Sequence[Adapter]) -> str:
    """JSON text of what callers may know of them, by number; names as of llama-server."""
    plain = []
    for number, adapter in enumerate(adapters):
        one: dict[str, Any] = {
            "id": number,
            "name": adapter.name,
            "scale": adapter.scale,
            "task_name": adapter.task_name,
            "prompt_prefix": adapter.prompt_prefix,
        }
        if adapter.invocation:
            one["alora_invocation_string"] = adapter.invocation_text
            one["alora_invocation_tokens"] = adapter.invocation
        plain.append(one)
    return json.dumps(plain)


def chosen_scales(adapters: Sequence[Adapter], wanted: Scales | None) -> Scales:
    """What a request uses: `wanted`, adapters that aren't in it not at all; None: the defaults.

    Raises:
        InvalidError: no such adapter, a scale out of bounds, or two activated adapters.
    """
    if wanted is None:
        wanted = tuple((number, adapter.scale) for number, adapter in enumerate(adapters))
    for index, (number, scale) in enumerate(wanted):
        if not 0 <= number < len(adapters):
            raise InvalidError(
                f"there is no adapter {number}; this model has {len(adapters)}",
                param=f"lora[{index}].id",
            )
        if not -MAX_ADAPTER_SCALE <= scale <= MAX_ADAPTER_SCALE:  # nor is NaN
            raise InvalidError(
                f"must be between -{MAX_ADAPTER_SCALE:g} and {MAX_ADAPTER_SCALE:g}",
                param=f"lora[{index}].scale",
            )
    by_number = {number: float(np.float32(scale)) for number, scale in wanted}
    scales = tuple(sorted((number, scale) for number, scale in by_number.items() if scale))
    if sum(bool(adapters[number].invocation) for number, _ in scales) > 1:
        raise InvalidError("at most one activated adapter (aLoRA) can be used", param="lora")
    return scales


def adapter_plan(
    adapters: Sequence[Adapter], scales: Scales, prompt: tuple[int, ...]
) -> AdapterPlan:
    """Where each of `scales` acts in `prompt`."""
    before = tuple(item for item in scales if not adapters[item[0]].invocation)
    if before == scales:
        return AdapterPlan(scales, scales)
    (number,) = (number for number, _ in scales if adapters[number].invocation)
    start = last_place(prompt, adapters[number].invocation)
    return AdapterPlan(before, before) if start is None else AdapterPlan(before, scales, start)


def last_place(tokens: tuple[int, ...], wanted: tuple[int, ...]) -> int | None:
    """Where `wanted` stands last in `tokens`."""
    for start in range(len(tokens) - len(wanted), -1, -1):
        if tokens[start] == wanted[0] and tokens[start : start + len(wanted)] == wanted:
            return start
    return None
