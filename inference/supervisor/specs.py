"""From a model config to the spec of an engine process: the one mapper."""

from __future__ import annotations

import os
import secrets

from django.conf import settings

from inference.bus import queue_config
from inference.engine.starter import find_starter_model
from inference.models import ModelConfig
from inference.protocol.spec import EngineSpec, MockSpec
from inference.queues.contract import QueueConfig
from llamaweb.lib.errors import FailedError


def engine_spec(config: ModelConfig, *, redis_url: str, use_extra_bufts: bool) -> EngineSpec:
    """What the next engine process of `config` is told.

    Raises:
        FailedError: the starter model is wanted and isn't installed.
    """
    path = config.file.path if config.file is not None else config.model_path
    if config.engine_class == "llama" and not path:
        starter = find_starter_model()
        if starter is None:
            raise FailedError("the starter model isn't installed; run `make run` again")
        path = str(starter)
    defaults = QueueConfig()
    bounds = queue_config()
    return EngineSpec(
        model=config.name,
        engine_id=f"{config.name}-{secrets.token_hex(6)}",
        redis_url=redis_url,
        redis_prefix=settings.REDIS_PREFIX,
        engine_class=config.engine_class,
        model_path=path,
        num_slots=config.num_slots,
        context_len=config.context_len,
        threads=config.threads,
        yields_cores=settings.ENGINE_YIELDS_CORES,
        step_target_ms=settings.ENGINE_STEP_MS,
        cache_ram_mib=settings.ENGINE_CACHE_MIB,
        kv_unified=settings.ENGINE_KV == "unified",
        context_shift=settings.ENGINE_CONTEXT_SHIFT,
        flash_attention=config.flash_attention,
        use_extra_bufts=use_extra_bufts,
        n_gpu_layers=config.gpu_layers,
        main_gpu=config.main_gpu,
        tensor_split=tuple(float(part) for part in config.tensor_split),
        chat_template=config.chat_template or None,
        mock=MockSpec(
            reply=settings.MOCK_REPLY,
            delay_ms=settings.MOCK_DELAY_MS,
            prefill_ms_per_token=settings.MOCK_PREFILL_MS_PER_TOKEN,
            fail_after=settings.MOCK_FAIL_AFTER,
            crash_after=settings.MOCK_CRASH_AFTER,
        ),
        queue=tuple(
            (name, float(getattr(bounds, name)))
            for name in QueueConfig.__dataclass_fields__
            if getattr(bounds, name) != getattr(defaults, name)
        ),
        parent_pid=os.getpid(),
    )
