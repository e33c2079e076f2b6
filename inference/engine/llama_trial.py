"""What a trial child does: load, compute once, and measure what nobody has decided."""

from __future__ import annotations

import logging
from typing import Any

import llama_cpp

from inference.engine.calibration import Calibration, VariantError, candidates
from inference.engine.llama_embedding import LlamaEmbedding, embeds_only
from inference.engine.llama_load import default_flash, init_library, load_model, num_threads
from inference.engine.llama_meter import LlamaMeter
from inference.protocol.cache_types import needs_flash_attention
from inference.protocol.spec import EngineSpec
from inference.protocol.trial import Choice, TrialOrder, TrialReport
from llamaweb.lib.clock import SystemClock
from llamaweb.lib.cpus import num_cores
from llamaweb.lib.errors import FailedError

logger = logging.getLogger(__name__)


def run_trial(order: TrialOrder) -> TrialReport:
    """Carry out `order`.

    Raises:
        FailedError, InvalidError: the model can't be served as the spec says.
    """
    init_library()
    model = load_model(order.spec)
    if embeds_only(model, order.spec):
        return _try_vectors(model, order.spec)
    meter = LlamaMeter(model, order.spec)
    try:
        return _measure(model, meter, order)
    except VariantError as error:
        raise FailedError(str(error)) from error
    finally:
        meter.close()
        llama_cpp.llama_model_free(model)


def _try_vectors(model: Any, spec: EngineSpec) -> TrialReport:
    """Compute one text; nothing is measured of such models."""
    vectors = LlamaEmbedding(model, spec, owns_model=True)
    try:
        vectors.warm_up()
    finally:
        vectors.close()
    logger.info("computed once")
    return TrialReport()


def _measure(model: Any, meter: LlamaMeter, order: TrialOrder) -> TrialReport:
    spec = order.spec
    default = _default(model, spec)
    meter.probe(default)
    logger.info("computed once")
    if not order.open:
        return TrialReport()
    tries = candidates(
        default,
        order.open,
        num_cores=num_cores(),
        num_slots=spec.num_slots,
        batch_len=spec.batch_len,
        may_choose_flash=not needs_flash_attention(spec.cache_type_v),
        may_unify=not spec.context_shift,
    )
    measured = Calibration(meter, SystemClock(), budget_s=order.budget_s).run(default, tries)
    for attempt in measured.attempts:
        logger.info("%s %s: %s", attempt.setting, attempt.value, attempt.outcome)
    return TrialReport(measured)


def _default(model: Any, spec: EngineSpec) -> Choice:
    flash = spec.flash_attention
    return Choice(
        threads=num_threads(spec),
        flash_attention=default_flash(model, spec) if flash == "auto" else flash,
        kv_unified=spec.kv_unified,
        ubatch_len=min(spec.ubatch_len, spec.batch_len),
    )
