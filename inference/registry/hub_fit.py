"""Whether a model that isn't here yet will fit into this machine's memory, with what context."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from django.conf import settings

from inference.models import ModelConfig
from inference.registry.gguf.facts import GgufFacts
from inference.registry.hub import HubModel
from inference.registry.hub_header import hub_facts, scaled
from inference.registry.memory import CELLS_PAD, DEFAULT_CONTEXT_LEN, Estimate, Serving, estimate
from inference.registry.memory_plan import serving_of
from llamaweb.lib.errors import LlamawebError

MIN_CONTEXT_LEN: Final = 1024  # a chat needs that much
MAX_HEADERS: Final = 3  # of one repository
HEADERS_S: Final = 20.0  # no further header is asked for after that

FitKind: TypeAlias = Literal["fits", "shorter", "too_large"]


@dataclass(frozen=True, slots=True)
class Fit:
    """`context_len`: tokens a slot, of what fits; 0 is what it would get anyway. `need_bytes` and
    `device_bytes`: with that context, of host memory and of GPUs. `over_bytes`: too much."""

    kind: FitKind
    need_bytes: int
    device_bytes: int = 0
    context_len: int = 0
    over_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes that a new model may have, of the host and of GPUs; None: nobody can tell, or it isn't
    counted. `is_shared`: GPUs have none of their own, what is to lie there takes the host's.
    `…_vectors`: what it will take there when it is first asked for vectors counts."""

    host_bytes: int | None = None
    gpu_bytes: int | None = None
    is_shared: bool = False
    host_vectors: bool = True
    gpu_vectors: bool = True

    def fit(self, kind: FitKind, found: Estimate, context_len: int = 0) -> Fit:
        """What is found, where it lies here."""
        vectors = found.part("vectors")
        host, device = found.host_bytes, found.device_bytes
        host -= 0 if self.host_vectors else vectors.host
        has_vectors = self.host_vectors if self.is_shared else self.gpu_vectors
        device -= 0 if has_vectors else vectors.device
        if self.is_shared:
            host, device = host + device, 0
        over = 0 if self.host_bytes is None else host - self.host_bytes
        if device and self.gpu_bytes is not None:
            over = max(over, device - self.gpu_bytes)
        return Fit(kind, host, device, context_len, max(0, over))


def new_serving(*, has_cache: bool, has_gpu: bool = True) -> Serving:
    """How a model is served that somebody adds now. `has_cache`: its full prompt cache counts.
    Without a GPU all of it is computed on the CPU, whatever the settings want."""
    config = ModelConfig(
        num_slots=settings.ENGINE_SLOTS,
        gpu_layers=settings.GPU_LAYERS if has_gpu else 0,
        kv_layout=settings.ENGINE_KV,
    )
    serving = serving_of(config, {})
    return serving if has_cache else replace(serving, cache_bytes=0)


def fit_of(facts: GgufFacts, serving: Serving, memory: Memory) -> Fit:
    """How a model fits into `memory`."""
    whole = memory.fit("fits", estimate(facts, serving))
    if not whole.over_bytes:
        return whole
    length = _longest(facts, serving, memory)
    if length:
        return memory.fit("shorter", _with(facts, serving, length), length)
    return memory.fit("too_large", _with(facts, serving, MIN_CONTEXT_LEN))


def _longest(facts: GgufFacts, serving: Serving, memory: Memory) -> int:
    """The most tokens a slot that fit, 0 if `MIN_CONTEXT_LEN` are too many. More tokens never take
    less memory, so halving finds it."""

    def fits(num_pads: int) -> bool:
        found = _with(facts, serving, num_pads * CELLS_PAD)
        return not memory.fit("fits", found).over_bytes

    usual = serving.context_len or min(facts.context_len or 2**31, DEFAULT_CONTEXT_LEN)
    low, high = MIN_CONTEXT_LEN // CELLS_PAD, usual // CELLS_PAD
    if low > high or not fits(low):
        return 0
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low * CELLS_PAD


def _with(facts: GgufFacts, serving: Serving, context_len: int) -> Estimate:
    return estimate(facts, replace(serving, context_len=context_len))


def fits_of(
    models: Sequence[HubModel], serving: Serving, memory: Memory
) -> Mapping[str, Fit | str]:
    """How each model of a repository fits, or why nobody can tell, by the path of its first file.

    Quantizations of one model, told by their names, share all but the size: the header of one of
    them is fetched. Takes seconds the first time.
    """
    headers: dict[str, GgufFacts | str] = {}
    ends_ts = time.monotonic() + HEADERS_S
    found: dict[str, Fit | str] = {}
    for model in models:
        first = model.files[0]
        if first.stem not in headers:
            is_late = len(headers) >= MAX_HEADERS or time.monotonic() > ends_ts
            headers[first.stem] = "not looked at" if is_late else _header(model)
        facts = headers[first.stem]
        if isinstance(facts, GgufFacts):
            size = sum(file.size for file in model.files)
            found[first.path] = fit_of(scaled(facts, size), serving, memory)
        else:
            found[first.path] = facts
    return found


def _header(model: HubModel) -> GgufFacts | str:
    try:
        return hub_facts(model)
    except LlamawebError as error:
        return error.message
