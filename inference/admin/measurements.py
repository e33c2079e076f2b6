"""What was measured of a model, in words."""

from __future__ import annotations

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from inference.models import Calibration, ModelConfig
from inference.protocol.trial import Choice, Rates
from inference.registry.calibrations import measured_of

MAX_MACHINES = 3


def measurement_lines(config: ModelConfig) -> list[str]:
    """A line for each machine: what its engines run with, and how fast that was. Newest first."""
    newest: dict[str, Calibration] = {}
    for calibration in config.calibrations.all():
        newest.setdefault(calibration.machine_name, calibration)
    return [_line(calibration) for calibration in list(newest.values())[:MAX_MACHINES]]


def _line(calibration: Calibration) -> str:
    measured = measured_of(calibration)
    if measured is None:
        return _("%(machine)s: the defaults; %(error)s") % {
            "machine": calibration.machine_name,
            "error": calibration.error,
        }
    return _("%(machine)s: %(choice)s (%(rates)s; by default %(default)s)") % {
        "machine": calibration.machine_name,
        "choice": _choice(measured.choice),
        "rates": _rates(measured.rates),
        "default": _rates(measured.default_rates),
    }


def _choice(choice: Choice) -> str:
    flash = {"on": _("on"), "off": _("off")}.get(choice.flash_attention, _("auto"))
    layout = ModelConfig.KvLayout.UNIFIED if choice.kv_unified else ModelConfig.KvLayout.STREAMS
    return ", ".join(
        [
            ngettext("%(count)d thread", "%(count)d threads", choice.threads)
            % {"count": choice.threads},
            _("flash attention %(state)s") % {"state": flash},
            _("KV: %(layout)s") % {"layout": layout.label},
            _("micro-batch %(length)d") % {"length": choice.ubatch_len},
        ]
    )


def _rates(rates: Rates) -> str:
    return _("prompts %(prefill)s, one answer %(one)s, all slots %(all)s tokens/s") % {
        "prefill": _number(rates.prefill),
        "one": _number(rates.decode_one),
        "all": _number(rates.decode_all),
    }


def _number(rate: float) -> str:
    if not rate:
        return "–"
    return number_format(round(rate) if rate >= 10 else round(rate, 1))
