"""What an administrator wants of engines: load, load on demand, pin, restart, drain, unload.

Each act and its audit event share one transaction; the supervisor reads what is wanted every
second. `updated_at` stays as it is: a new one restarts the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from inference.models import ModelConfig
from inference.registry.files import ready_check
from inference.registry.selectors import SERVED
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

Wanted = ModelConfig.Wanted


def can_load(config: ModelConfig) -> bool:
    """Whether it isn't to be loaded without requests as yet."""
    return config.is_enabled and config.wanted != Wanted.LOADED


def can_wait(config: ModelConfig) -> bool:
    """Whether it isn't loaded on demand as yet."""
    return config.is_enabled and config.wanted != Wanted.ON_DEMAND


def can_unload(config: ModelConfig) -> bool:
    """Whether there is anything to unload."""
    return config.wanted != Wanted.UNLOADED


def model_load(*, config: ModelConfig, **who: Any) -> bool:
    """Have an engine run for it. False: it was wanted already.

    Raises:
        InvalidError: it is disabled, or its file isn't whole.
    """
    return _want(config, Wanted.LOADED, AuditAction.MODEL_LOADED, **who)


def model_on_demand(*, config: ModelConfig, **who: Any) -> bool:
    """Have it loaded when a request waits for it, and make way for others when idle; what is in
    memory stays there for now. False: it was so; raises as `model_load`."""
    return _want(config, Wanted.ON_DEMAND, AuditAction.MODEL_ON_DEMAND, **who)


def model_pin_set(
    *,
    config: ModelConfig,
    is_pinned: bool,
    actor: User | None = None,
    address: str | None = None,
) -> bool:
    """Have it never unloaded for another model, or again. False: it was so."""
    with transaction.atomic():
        row = ModelConfig.objects.select_for_update().get(pk=config.pk)
        if row.is_pinned == is_pinned:
            return False
        ModelConfig.objects.filter(pk=row.pk).update(is_pinned=is_pinned)
        action = AuditAction.MODEL_PINNED if is_pinned else AuditAction.MODEL_UNPINNED
        audit_record(action=action, actor=actor, target=row, address=address, name=row.name)
    return True


def model_restart(
    *, config: ModelConfig, actor: User | None = None, address: str | None = None
) -> bool:
    """Have its engine start anew. What runs gets a minute to end; the rest goes on in the next
    engine, nothing is lost. One that isn't in memory stays out until it is asked.

    Raises:
        InvalidError: it is disabled, drained or unloaded.
    """
    with transaction.atomic():
        row = ModelConfig.objects.select_for_update().get(pk=config.pk)
        if not row.is_enabled or row.wanted not in SERVED:
            raise InvalidError(f"{row.name} isn't to be loaded; load it instead")
        ModelConfig.objects.filter(pk=row.pk).update(restart_at=timezone.now())
        audit_record(
            action=AuditAction.MODEL_RESTARTED,
            actor=actor,
            target=row,
            address=address,
            name=row.name,
        )
    return True


def model_drain(*, config: ModelConfig, **who: Any) -> bool:
    """Take no new requests, let running answers end, then unload. False: it is unloaded or so."""
    return _want(config, Wanted.DRAINED, AuditAction.MODEL_DRAINED, **who)


def model_unload(*, config: ModelConfig, **who: Any) -> bool:
    """End its engine within seconds; what runs ends with an error. False: it was unloaded."""
    return _want(config, Wanted.UNLOADED, AuditAction.MODEL_UNLOADED, **who)


def _want(
    config: ModelConfig,
    wanted: ModelConfig.Wanted,
    action: AuditAction,
    *,
    actor: User | None = None,
    address: str | None = None,
) -> bool:
    with transaction.atomic():
        row = ModelConfig.objects.select_for_update().get(pk=config.pk)
        if row.wanted == wanted or (wanted == Wanted.DRAINED and row.wanted == Wanted.UNLOADED):
            return False
        if wanted in SERVED and not row.is_enabled:
            raise InvalidError(f"{row.name} is disabled; enable it first")
        if wanted in SERVED and row.file is not None:
            ready_check(row.file)
        ModelConfig.objects.filter(pk=row.pk).update(wanted=wanted)
        audit_record(action=action, actor=actor, target=row, address=address, name=row.name)
    return True
