"""Changing model configs."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings
from django.db import transaction

from inference.models import ModelConfig
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record

STARTER_NAME = "smollm2-135m-instruct"
MOCK_NAME = "mock"


def starter_name() -> str:
    """Name of the config that the environment describes."""
    if settings.ENGINE == "mock":
        return MOCK_NAME
    if settings.MODEL is None:
        return STARTER_NAME
    return re.sub(r"[^A-Za-z0-9._-]+", "-", Path(settings.MODEL).stem).strip("-._") or "model"


@transaction.atomic
def starter_config_sync() -> ModelConfig:
    """Bring the starter config in step with the environment; made on the first start."""
    values = {
        "name": starter_name(),
        "engine_class": settings.ENGINE,
        "model_path": str(settings.MODEL or ""),
        "num_slots": settings.ENGINE_SLOTS,
        "context_len": settings.ENGINE_CONTEXT,
        "threads": settings.ENGINE_THREADS,
        "gpu_layers": settings.GPU_LAYERS,
        "kv_layout": settings.ENGINE_KV,
    }
    config = ModelConfig.objects.select_for_update().filter(is_starter=True).first()
    if config is None:
        has_default = ModelConfig.objects.filter(is_default=True).exists()
        config = ModelConfig(
            is_starter=True, is_default=not has_default, wanted=ModelConfig.Wanted.LOADED
        )
    changed = {name for name, value in values.items() if getattr(config, name) != value}
    if config.pk is None or changed:
        for name, value in values.items():
            setattr(config, name, value)
        config.full_clean(validate_constraints=True)
        config.save()
        audit_record(
            action=AuditAction.MODEL_CONFIG_SYNCED,
            actor=None,
            target=config,
            changed=sorted(changed),
        )
    return config
