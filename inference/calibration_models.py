"""What was found out about machines, and about models on them."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

DIGEST_LEN = 64
MACHINE_NAME_LEN = 200


class MachineProbe(models.Model):
    """What computing once has shown of a machine: its processor and the library built for it.

    `key` names both. `use_extra_bufts`: whether llama.cpp may lay weights out for instructions of
    this processor; off where a process died of one.
    """

    key = models.CharField(max_length=DIGEST_LEN, unique=True)
    name = models.CharField(_("machine"), max_length=MACHINE_NAME_LEN)
    use_extra_bufts = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("machine")
        verbose_name_plural = _("machines")

    def __str__(self) -> str:
        return self.name


class Calibration(models.Model):
    """What was measured of a model on a machine. All engines of the model there run with it.

    `key` names the file, the machine and the settings that it holds for. `measured` is a `Measured`
    of the protocol as plain values; None: it failed, `error` says why, and the defaults hold.
    `used_at`: when an engine last started with it.
    """

    config = models.ForeignKey(
        "inference.ModelConfig", on_delete=models.CASCADE, related_name="calibrations"
    )
    key = models.CharField(max_length=DIGEST_LEN, db_index=True)
    machine_key = models.CharField(max_length=DIGEST_LEN)
    machine_name = models.CharField(_("machine"), max_length=MACHINE_NAME_LEN)
    measured = models.JSONField(null=True)
    error = models.CharField(_("error"), max_length=500, blank=True)
    created_at = models.DateTimeField(_("measured"))
    used_at = models.DateTimeField(_("used"))

    class Meta:
        ordering = ["-used_at", "-id"]
        verbose_name = _("measurement")
        verbose_name_plural = _("measurements")
        constraints = [
            models.UniqueConstraint(fields=["config", "key"], name="one_calibration_a_key")
        ]

    def __str__(self) -> str:
        return f"{self.config_id} {self.machine_name}"
