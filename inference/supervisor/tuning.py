"""What has to be known of a model on this machine before its engine starts, and what is.

The first start of a file on a machine, or with other settings, finds nothing: a trial is due. All
later engines of the model there are told the same, so an answer that moves from one to another
goes on with the same kernels.
"""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from django.conf import settings

from inference.engine.model_file import file_digest
from inference.models import ModelConfig
from inference.protocol.spec import EngineSpec
from inference.protocol.trial import Setting, TrialOrder, TrialReport
from inference.registry.calibrations import (
    calibration_store,
    calibration_use,
    measured_of,
    probe_find,
    probe_store,
)
from inference.supervisor.machine import Machine, this_machine
from inference.supervisor.specs import Tuning, engine_spec, open_settings
from llamaweb.lib.errors import FailedError

VERSION = 1  # of what is measured and how; another one measures anew
BUDGET_S, BUDGET_S_PER_GIB, MAX_BUDGET_S = 10.0, 2.0, 60.0
# What a measurement depends on, beside the file, the machine and what is open.
FIXED = (
    "num_slots",
    "context_len",
    "batch_len",
    "ubatch_len",
    "threads",
    "flash_attention",
    "kv_unified",
    "cache_type_k",
    "cache_type_v",
    "context_shift",
    "n_gpu_layers",
    "load_mode",
    "split_mode",
    "main_gpu",
    "tensor_split",
)


@dataclass(frozen=True, slots=True)
class Question:
    """How `config` is served best on `machine`. `spec`: without what a measurement would choose;
    `open`: what it may choose, nothing where that is switched off."""

    config: ModelConfig
    spec: EngineSpec
    machine: Machine
    open: tuple[Setting, ...]
    key: str
    file_bytes: int


def question_of(config: ModelConfig) -> Question:
    """What has to be known of a model of class "llama".

    Raises:
        FailedError: its file isn't there.
    """
    spec = engine_spec(config, redis_url="", tuning=Tuning())
    path, machine = Path(spec.model_path), this_machine()
    try:
        stat = path.stat()
        digest = _digest(path, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise FailedError(f"model file {path.name!r} doesn't exist or can't be read") from error
    settings_open = open_settings(config) if settings.ENGINE_CALIBRATION else ()
    fixed = tuple(getattr(spec, name) for name in FIXED)
    text = repr((VERSION, digest, machine.key, settings_open, fixed))
    key = hashlib.sha256(text.encode()).hexdigest()
    return Question(config, spec, machine, settings_open, key, stat.st_size)


def tuning_find(question: Question) -> Tuning | None:
    """What is known; None: a trial is due."""
    use_extra_bufts = probe_find(question.machine.key)
    if use_extra_bufts is None:
        return None
    if not question.open:
        return Tuning(use_extra_bufts)
    found = calibration_use(question.config, question.key)
    if found is None:
        return None
    measured = measured_of(found)
    return Tuning(use_extra_bufts, measured.choice if measured is not None else None)


def trial_order(question: Question) -> TrialOrder:
    """What a trial child is told."""
    may_use = probe_find(question.machine.key)
    budget_s = BUDGET_S + BUDGET_S_PER_GIB * question.file_bytes / 2**30
    return TrialOrder(
        spec=replace(question.spec, use_extra_bufts=may_use is not False),
        open=question.open,
        budget_s=min(MAX_BUDGET_S, budget_s) if question.open else 0.0,
    )


def trial_done(question: Question, order: TrialOrder, report: TrialReport) -> None:
    """Remember what a trial has found out."""
    _keep_probe(question, use_extra_bufts=order.spec.use_extra_bufts)
    if question.open:
        _keep(question, report, "")


def trial_failed(question: Question, order: TrialOrder, reason: str) -> None:
    """Remember that nothing could be measured: the defaults hold, and engines show themselves what
    is wrong, without a trial before each of their starts."""
    _keep_probe(question, use_extra_bufts=order.spec.use_extra_bufts)
    if question.open:
        _keep(question, TrialReport(), reason)


def forbid_extra_bufts(machine: Machine) -> None:
    """Remember that a process died of an instruction that this machine hasn't."""
    probe_store(machine.key, name=machine.name, use_extra_bufts=False)


def _keep_probe(question: Question, *, use_extra_bufts: bool) -> None:
    if probe_find(question.machine.key) is None:
        machine = question.machine
        probe_store(machine.key, name=machine.name, use_extra_bufts=use_extra_bufts)


def _keep(question: Question, report: TrialReport, error: str) -> None:
    calibration_store(
        question.config,
        question.key,
        machine_key=question.machine.key,
        machine_name=question.machine.name,
        measured=report.measured,
        error=error,
    )


@functools.lru_cache(maxsize=64)
def _digest(path: Path, _size: int, _mtime_ns: int) -> str:
    """Of a file as it stands now."""
    return file_digest(path)
