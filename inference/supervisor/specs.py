"""From a model config to the spec of an engine process: the one mapper."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from django.conf import settings

from inference.bus import queue_config
from inference.engine.starter import find_starter_model
from inference.models import ModelConfig
from inference.protocol.spec import DEFAULT_UBATCH_LEN, EngineSpec, MockSpec
from inference.protocol.trial import Choice, Setting
from inference.protocol.vectors import PoolingChoice
from inference.queues.contract import QueueConfig
from inference.registry.adapters import adapter_specs
from inference.registry.engine_classes import class_refusal
from inference.registry.files import loadable_path
from inference.registry.memory import pooling_of
from inference.registry.selectors import task_of
from inference.supervisor.upstream_specs import upstream_spec
from llamaweb.lib.errors import FailedError


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was found out on this machine. `choice`: of settings that nobody has decided; None
    where nothing was measured."""

    use_extra_bufts: bool = True
    choice: Choice | None = None


def open_settings(config: ModelConfig) -> tuple[Setting, ...]:
    """What nobody has decided, so that a measurement may."""
    is_open: dict[Setting, bool] = {
        "threads": not config.threads,
        "flash_attention": config.flash_attention == "auto",
        "kv_unified": config.kv_layout == "auto",
        "ubatch_len": not config.ubatch_len,
    }
    return tuple(name for name, found in is_open.items() if found)


def engine_spec(
    config: ModelConfig, *, redis_url: str, tuning: Tuning, shares: Sequence[float] = ()
) -> EngineSpec:
    """What the next engine process of `config` is told: what was decided, then what was measured,
    then the defaults. `shares`: of each GPU, where `config` has none.

    Raises:
        FailedError: the file isn't there, the starter model is wanted and isn't installed, an
            upstream's key can't be opened, or the engine class isn't allowed here.
    """
    refusal = class_refusal(config.engine_class)
    if refusal:
        raise FailedError(refusal)
    spec = EngineSpec(
        model=config.name,
        engine_id=f"{config.name}-{secrets.token_hex(6)}",
        redis_url=redis_url,
        redis_prefix=settings.REDIS_PREFIX,
        engine_class=config.engine_class,
        model_path=_model_path(config),
        num_slots=config.num_slots,
        context_len=config.context_len,
        threads=config.threads,
        yields_cores=settings.ENGINE_YIELDS_CORES,
        step_target_ms=settings.ENGINE_STEP_MS,
        cache_ram_mib=settings.ENGINE_CACHE_MIB,
        kv_unified=config.kv_layout == "unified",
        ubatch_len=config.ubatch_len or DEFAULT_UBATCH_LEN,
        cache_type_k=config.cache_type_k,
        cache_type_v=config.cache_type_v,
        context_shift=settings.ENGINE_CONTEXT_SHIFT,
        flash_attention=config.flash_attention,
        use_extra_bufts=tuning.use_extra_bufts,
        n_gpu_layers=config.gpu_layers,
        load_mode=config.load_mode,
        split_mode=config.split_mode,
        main_gpu=config.main_gpu,
        tensor_split=tuple(float(part) for part in shares or config.tensor_split),
        chat_template=config.chat_template or None,
        special_tokens=config.special_tokens,
        pooling=cast("PoolingChoice", pooling_of(config.pooling, task_of(config))),
        vector_norm=config.vector_norm,
        adapters=adapter_specs(config.adapters),
        upstream=upstream_spec(config),
        mock=_mock_spec(),
        queue=_queue_bounds(),
        parent_pid=os.getpid(),
    )
    return _tuned(spec, tuning.choice, open_settings(config))


def _model_path(config: ModelConfig) -> str:
    path = str(loadable_path(config.file)) if config.file is not None else config.model_path
    if path or config.engine_class != "llama":
        return path
    starter = find_starter_model()
    if starter is None:
        raise FailedError("the starter model isn't installed; run `make run` again")
    return str(starter)


def _mock_spec() -> MockSpec:
    return MockSpec(
        reply=settings.MOCK_REPLY,
        load_ms=settings.MOCK_LOAD_MS,
        delay_ms=settings.MOCK_DELAY_MS,
        prefill_ms_per_token=settings.MOCK_PREFILL_MS_PER_TOKEN,
        fail_after=settings.MOCK_FAIL_AFTER,
        crash_after=settings.MOCK_CRASH_AFTER,
    )


def _queue_bounds() -> tuple[tuple[str, float], ...]:
    """What isn't as an engine process has it by itself."""
    bounds, defaults = queue_config(), QueueConfig()
    return tuple(
        (name, float(getattr(bounds, name)))
        for name in QueueConfig.__dataclass_fields__
        if getattr(bounds, name) != getattr(defaults, name)
    )


def _tuned(
    spec: EngineSpec, choice: Choice | None, settings_open: tuple[Setting, ...]
) -> EngineSpec:
    if choice is None:
        return spec
    chosen: dict[str, Any] = {name: getattr(choice, name) for name in settings_open}
    if chosen.get("kv_unified"):
        chosen["pool_contexts"] = spec.num_slots  # as much room as streams would have
    return replace(spec, **chosen)
