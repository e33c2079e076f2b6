"""What is measured about jobs, in the process that runs them."""

from __future__ import annotations

import time
from typing import Any, Final

from celery.signals import task_postrun, task_prerun
from prometheus_client import Counter, Histogram

from llamaweb.lib.instrument import PREFIX, Instrument

JOB_BUCKETS_S: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 3600)
MOST_OPEN: Final = 1000  # that began and never ended: there is no such job

JOB_TIME = Instrument(f"{PREFIX}_job_seconds", "histogram", "Time that a job took.", ("job",))
JOBS = Instrument(
    f"{PREFIX}_jobs_total",
    "counter",
    "Jobs that ended: success, failure, retry or ignored.",
    ("job", "outcome"),
)
INSTRUMENTS: Final = (JOB_TIME, JOBS)

_time = Histogram(JOB_TIME.name, JOB_TIME.help, JOB_TIME.labels, buckets=JOB_BUCKETS_S)
_jobs = Counter(JOBS.name, JOBS.help, JOBS.labels)
_began: dict[str, float] = {}


def watch_jobs() -> None:
    """Measure all jobs of this process from now on."""
    task_prerun.connect(_begin, weak=False)
    task_postrun.connect(_end, weak=False)


def _begin(task_id: str, **_more: Any) -> None:
    if len(_began) < MOST_OPEN:
        _began[task_id] = time.monotonic()


def _end(task_id: str, task: Any, state: str | None = None, **_more: Any) -> None:
    began_ts = _began.pop(task_id, None)
    name = task.name.rpartition(".")[2]
    if began_ts is not None:
        _time.labels(name).observe(time.monotonic() - began_ts)
    _jobs.labels(name, (state or "failure").lower()).inc()
