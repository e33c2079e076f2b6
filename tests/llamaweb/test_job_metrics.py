"""Jobs are measured by name and outcome; what killed processes had open is forgotten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from celery.signals import task_postrun, task_prerun
from prometheus_client import REGISTRY

from llamaweb import job_metrics
from llamaweb.lib.ids import new_id
from llamaweb.run.instance import forget_dead
from llamaweb.run.programs import programs


class Job:
    """Signals are told by whom they come."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture(autouse=True)
def _watched() -> None:
    job_metrics.watch_jobs()
    job_metrics.watch_jobs()  # again: nothing


@pytest.mark.parametrize(("state", "outcome"), [("SUCCESS", "success"), ("FAILURE", "failure")])
def test_a_job_is_counted_once_and_timed(state: str, outcome: str) -> None:
    name = new_id()
    task = Job(f"inference.tasks.{name}")
    task_prerun.send(sender=task, task_id="t1", task=task)
    task_postrun.send(sender=task, task_id="t1", task=task, state=state)
    labels = {"job": name, "outcome": outcome}
    assert REGISTRY.get_sample_value("llamaweb_jobs_total", labels) == 1
    assert REGISTRY.get_sample_value("llamaweb_job_seconds_count", {"job": name}) == 1


def test_only_what_dead_processes_had_open_is_forgotten(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], stdout=-1)
    dead_pid, alive_pid = int(dead.stdout), os.getpid()
    names = [
        f"{kind}_{pid}.db"
        for kind in ("gauge_livesum", "gauge_max", "counter", "histogram")
        for pid in (dead_pid, alive_pid)
    ]
    for name in names:
        (tmp_path / name).touch()
    forget_dead(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert set(names) - left == {f"gauge_livesum_{dead_pid}.db"}


def test_the_jobs_process_counts_into_the_common_folder() -> None:
    from llamaweb.boot import boot

    (jobs,) = [one for one in programs(boot()) if one.name == "jobs"]
    assert "llamaweb.run.jobs" in jobs.command
