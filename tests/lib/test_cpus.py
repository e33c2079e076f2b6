"""The cores of this process, and what others use of them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from llamaweb.lib.cpus import CoreMeter, num_cores

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3})


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("max 100000", 2), ("150000 100000", 2), ("100000 100000", 1), ("5000 100000", 1), ("?", 2)],
)
def test_a_containers_quota_bounds_the_cores(
    quota: str, cores: int, tmp_path: Path, two_cores: None
) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(quota)
    assert num_cores(file) == cores


def test_without_a_quota_it_is_where_it_may_be_scheduled(tmp_path: Path, two_cores: None) -> None:
    assert num_cores(tmp_path / "missing") == 2


def stat_text(busy_s: dict[str, float]) -> str:
    lines = ["cpu  1 1 1 1 1 1 1 1 1 1"]
    for name, seconds in busy_s.items():
        user = int(seconds * TICKS_A_SECOND)
        lines.append(f"{name} {user} 0 0 5 6 0 0 900 0 0")
    return "\n".join([*lines, "intr 12 0", "ctxt 4"])


def test_what_others_use_is_what_this_process_did_not(
    tmp_path: Path, two_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"wall": 10.0, "own": 5.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["wall"])
    monkeypatch.setattr(time, "process_time", lambda: now["own"])
    stat = tmp_path / "stat"
    stat.write_text(stat_text({"cpu0": 100.0, "cpu1": 100.0, "cpu3": 100.0}))
    meter = CoreMeter(stat)
    now.update(wall=12.0, own=6.0)
    stat.write_text(stat_text({"cpu0": 102.0, "cpu1": 102.0, "cpu3": 101.0}))
    assert meter.used_by_others() == pytest.approx(1.0)  # 3 s on ours in 2 s, 1 s of it own
    now.update(wall=14.0, own=8.0)
    stat.write_text(stat_text({"cpu0": 103.0, "cpu1": 103.0, "cpu3": 101.5}))
    assert meter.used_by_others() == 0.0


def test_a_short_look_leaves_the_long_one_alone(
    tmp_path: Path, two_cores: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"wall": 10.0, "own": 5.0}
    stat = tmp_path / "stat"
    stat.write_text(stat_text({"cpu0": 100.0, "cpu3": 100.0}))

    def sleep(seconds: float) -> None:
        now["wall"] += seconds
        stat.write_text(stat_text({"cpu0": 102.5, "cpu3": 101.0}))

    monkeypatch.setattr(time, "monotonic", lambda: now["wall"])
    monkeypatch.setattr(time, "process_time", lambda: now["own"])
    monkeypatch.setattr(time, "sleep", sleep)
    meter = CoreMeter(stat)
    now.update(wall=11.0)
    stat.write_text(stat_text({"cpu0": 102.0, "cpu3": 101.0}))
    assert meter.used_now(0.5) == pytest.approx(1.0)
    now.update(wall=12.0)
    assert meter.used_by_others() == pytest.approx(1.75)


def test_nobody_can_tell(tmp_path: Path) -> None:
    assert CoreMeter(tmp_path / "missing").used_by_others() is None
    assert CoreMeter(tmp_path / "missing").used_now(0.0) is None
    hidden = tmp_path / "stat"
    hidden.write_text("cpu  1 1 1 1 1 1 1 1 1 1\n")
    assert CoreMeter(hidden).used_by_others() is None


def test_this_machine_can_be_read() -> None:
    meter = CoreMeter()
    ends_ts = time.monotonic() + 0.1
    while time.monotonic() < ends_ts:
        pass
    used = meter.used_by_others()
    assert used is not None
    assert 0.0 <= used <= len(os.sched_getaffinity(0)) + 1
