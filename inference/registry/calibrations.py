"""What was found out about machines, and about models on them. The supervisor asks and answers;
an administrator may have it measured again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from inference.models import Calibration, MachineProbe, ModelConfig
from inference.protocol.codec import DecodeError, from_plain, to_plain
from inference.protocol.trial import Measured
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record

if TYPE_CHECKING:
    from datetime import datetime

    from llamaweb.accounts.models import User

MAX_KEPT = 16  # measurements of one model: with other settings, on other machines
MAX_ERROR_LEN = 500


def probe_find(machine_key: str) -> bool | None:
    """Whether this machine may use extra CPU buffers; None if nobody has tried."""
    probe = MachineProbe.objects.filter(key=machine_key).first()
    return None if probe is None else probe.use_extra_bufts


def probe_store(machine_key: str, *, name: str, use_extra_bufts: bool) -> None:
    """Remember it."""
    MachineProbe.objects.update_or_create(
        key=machine_key, defaults={"name": name, "use_extra_bufts": use_extra_bufts}
    )


def calibration_use(config: ModelConfig, key: str) -> Calibration | None:
    """What was measured under `key`, for an engine that starts now; None: nothing yet.

    What was measured for another model of the same file and settings counts as well.
    """
    now = timezone.now()
    if Calibration.objects.filter(config=config, key=key).update(used_at=now):
        return Calibration.objects.get(config=config, key=key)
    twin = Calibration.objects.filter(key=key).first()
    if twin is None:
        return None
    return _store(
        config,
        key,
        machine_key=twin.machine_key,
        machine_name=twin.machine_name,
        measured=twin.measured,
        error=twin.error,
        created_at=twin.created_at,
    )


def calibration_store(
    config: ModelConfig,
    key: str,
    *,
    machine_key: str,
    machine_name: str,
    measured: Measured | None,
    error: str = "",
) -> Calibration:
    """Keep what a trial measured, or why it failed. Where somebody was faster, theirs stays: all
    engines of a model compute alike."""
    return calibration_use(config, key) or _store(
        config,
        key,
        machine_key=machine_key,
        machine_name=machine_name,
        measured=None if measured is None else to_plain(measured),
        error=error[:MAX_ERROR_LEN],
        created_at=timezone.now(),
    )


def measured_of(calibration: Calibration) -> Measured | None:
    """What was measured; None where it failed, or is of another version."""
    if calibration.measured is None:
        return None
    try:
        measured = from_plain(Measured, calibration.measured)
    except DecodeError:
        return None
    assert isinstance(measured, Measured)
    return measured


def model_measure(
    *, config: ModelConfig, actor: User | None = None, address: str | None = None
) -> bool:
    """Forget what was measured of it; its engine starts anew and is measured first."""
    with transaction.atomic():
        row = ModelConfig.objects.select_for_update().get(pk=config.pk)
        found = list(Calibration.objects.filter(config=row))
        keys = {calibration.key for calibration in found}
        machines = {calibration.machine_key for calibration in found}
        Calibration.objects.filter(key__in=keys).delete()
        MachineProbe.objects.filter(key__in=machines).delete()
        row.save(update_fields=["updated_at"])
        audit_record(
            action=AuditAction.MODEL_MEASURED,
            actor=actor,
            target=row,
            address=address,
            name=row.name,
        )
    return True


def can_measure(config: ModelConfig) -> bool:
    """Whether there is anything to measure again."""
    return config.engine_class == "llama" and config.calibrations.exists()


@transaction.atomic
def _store(
    config: ModelConfig,
    key: str,
    *,
    machine_key: str,
    machine_name: str,
    measured: object,
    error: str,
    created_at: datetime,
) -> Calibration:
    row, _ = Calibration.objects.get_or_create(
        config=config,
        key=key,
        defaults={
            "machine_key": machine_key,
            "machine_name": machine_name,
            "measured": measured,
            "error": error,
            "created_at": created_at,
            "used_at": timezone.now(),
        },
    )
    kept = Calibration.objects.filter(config=config).values_list("pk", flat=True)[:MAX_KEPT]
    Calibration.objects.filter(config=config).exclude(pk__in=list(kept)).delete()
    return row
