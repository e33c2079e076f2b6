"""A trial of the starter model: loaded, computed once, measured; nothing is said of how fast."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from inference.engine.calibration import OutOfTimeError, Sample
from inference.engine.llama_load import init_library, load_model
from inference.engine.llama_meter import LlamaMeter
from inference.protocol.spec import EXIT_UNSERVABLE, EngineSpec
from inference.protocol.trial import (
    Choice,
    Measured,
    TrialOrder,
    TrialReport,
    decode_report,
    encode_line,
)
from llamaweb.lib.cpus import num_cores
from tests.model.conftest import starter_spec

pytestmark = pytest.mark.model
ROOT = Path(__file__).resolve().parents[2]
NEVER = float("inf")


def spec_of(**fields: object) -> EngineSpec:
    values = {"flash_attention": "auto", "batch_len": 2048, "ubatch_len": 512, "num_slots": 2}
    return starter_spec(**{**values, **fields})


def run_trial(order: TrialOrder) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "inference.worker.trial"],
        input=encode_line(order).encode(),
        capture_output=True,
        cwd=ROOT,
        timeout=90,
        check=False,
    )


def measured_by(order: TrialOrder) -> Measured:
    done = run_trial(order)
    assert done.returncode == 0, done.stderr.decode()
    report = decode_report(done.stdout)
    assert report.measured is not None
    return report.measured


def test_a_trial_reports_a_choice_and_its_rates() -> None:
    measured = measured_by(
        TrialOrder(spec_of(), ("threads", "flash_attention", "kv_unified", "ubatch_len"), 3.0)
    )
    assert measured.default == Choice(1, "off", False, 512)
    assert 1 <= measured.choice.threads <= num_cores()
    assert measured.choice.flash_attention in ("on", "off")
    assert min(dataclasses.astuple(measured.default_rates)) > 0
    tried = {attempt.setting for attempt in measured.attempts}
    assert {"flash_attention", "kv_unified", "ubatch_len"} <= tried
    for attempt in measured.attempts:
        assert attempt.outcome in ("taken", "outdone", "no_gain", "no_time", "failed")


def test_only_what_is_open_is_tried() -> None:
    measured = measured_by(TrialOrder(spec_of(flash_attention="on"), ("kv_unified",), 2.0))
    assert [attempt.setting for attempt in measured.attempts] == ["kv_unified"]
    assert measured.choice.flash_attention == "on"


def test_quantised_values_leave_no_choice_of_flash_attention() -> None:
    order = TrialOrder(spec_of(cache_type_v="q8_0"), ("flash_attention",), 2.0)
    measured = measured_by(order)
    assert (measured.attempts, measured.choice.flash_attention) == ((), "on")


def test_a_probe_alone_measures_nothing() -> None:
    done = run_trial(TrialOrder(spec_of()))
    assert (done.returncode, decode_report(done.stdout)) == (0, TrialReport())


def test_a_model_that_can_not_be_loaded_is_named(tmp_path: Path) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(b"GGUF")
    done = run_trial(TrialOrder(spec_of(model_path=str(path))))
    assert (done.returncode, done.stdout) == (EXIT_UNSERVABLE, b"")
    (line,) = [line for line in done.stderr.decode().splitlines() if line.startswith("FATAL")]
    assert "damaged.gguf" in line


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]"])
def test_what_is_no_order_is_refused(text: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "inference.worker.trial"],
        input=text, capture_output=True, cwd=ROOT, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == EXIT_UNSERVABLE


def test_a_meter_on_every_variant() -> None:
    init_library()
    spec = spec_of(threads=1)
    model = load_model(spec)
    meter = LlamaMeter(model, spec)
    try:
        default = Choice(1, "off", False, 512)
        for change in ({}, {"flash_attention": "on"}, {"kv_unified": True}, {"ubatch_len": 64}):
            choice = dataclasses.replace(default, **change)
            for _ in range(2):  # a context that is used again holds what it held
                assert min(dataclasses.astuple(meter.measure(choice, Sample(32), NEVER))) > 0
        prompt = meter.measure(default, Sample(64, decodes=False), NEVER)
        assert (prompt.prefill > 0, prompt.decode_one, prompt.decode_all) == (True, 0, 0)
        with pytest.raises(OutOfTimeError):
            meter.measure(default, Sample(32), 0.0)
        assert meter.measure(default, Sample(32), NEVER).prefill > 0
    finally:
        meter.close()
