"""What a configured model will need of this machine's memory, and what there is of it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings

from inference.engine.starter import find_starter_model
from inference.models import ModelConfig
from inference.protocol.spec import DEFAULT_UBATCH_LEN
from inference.registry.calibrations import measured_of
from inference.registry.files import model_facts
from inference.registry.gguf.facts import GgufFacts
from inference.registry.gguf.process import read_descriptor
from inference.registry.memory import Estimate, Serving, estimate
from inference.registry.model_dir import opened, signature_of
from llamaweb.lib.errors import LlamawebError


def model_estimate(
    config: ModelConfig, changes: Mapping[str, Any] | None = None
) -> Estimate | None:
    """What an engine of `config` will need, served with `changes` to its fields; None where
    nothing is known of its file, or nothing is loaded here."""
    facts = config_facts(config)
    if facts is None:
        return None
    return estimate(facts, serving_of(config, changes or {}))


def config_facts(config: ModelConfig) -> GgufFacts | None:
    """What the header of its model says; None if nobody knows."""
    if config.engine_class != "llama":
        return None
    if config.file is not None:
        return model_facts(config.file)
    path = Path(config.model_path) if config.model_path else find_starter_model()
    return None if path is None else _facts_at(path)


def serving_of(config: ModelConfig, changes: Mapping[str, Any]) -> Serving:
    """How it is served: what was decided, then what was measured, then the defaults."""

    def field(name: str) -> Any:
        return changes.get(name, getattr(config, name))

    is_unified = field("kv_layout") == ModelConfig.KvLayout.UNIFIED
    serving = Serving(
        num_slots=field("num_slots"),
        context_len=field("context_len"),
        ubatch_len=field("ubatch_len") or DEFAULT_UBATCH_LEN,
        cache_type_k=field("cache_type_k"),
        cache_type_v=field("cache_type_v"),
        kv_unified=is_unified,
        flash_attention=field("flash_attention"),
        gpu_layers=field("gpu_layers"),
        adapter_bytes=_adapter_bytes(config),
        cache_bytes=settings.ENGINE_CACHE_MIB << 20,
        pooling=field("pooling"),
    )
    newest = next(iter(config.calibrations.all()), None) if config.pk is not None else None
    measured = measured_of(newest) if newest is not None else None
    if measured is None:
        return serving
    choice = measured.choice
    if serving.flash_attention == "auto":
        serving = replace(serving, flash_attention=choice.flash_attention)
    if not field("ubatch_len"):
        serving = replace(serving, ubatch_len=choice.ubatch_len)
    return serving  # a measured pool has as much room as streams


def _adapter_bytes(config: ModelConfig) -> int:
    """Of the files loaded beside it, as far as they are there."""
    total = 0
    for one in getattr(config, "adapters", None) or ():
        try:
            total += Path(str(one.get("path", ""))).stat().st_size
        except (OSError, AttributeError, ValueError):
            continue
    return total


def _facts_at(path: Path) -> GgufFacts | None:
    try:
        with opened(path.resolve(strict=True)) as descriptor:
            return _read(path, signature_of(os.fstat(descriptor)))
    except (OSError, LlamawebError):
        return None


@functools.lru_cache(maxsize=8)
def _read(path: Path, _signature: str) -> GgufFacts:
    """Read once for each state of the file."""
    with opened(path.resolve(strict=True)) as descriptor:
        return read_descriptor(descriptor).facts
