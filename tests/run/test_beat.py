"""The clock sends what the jobs' application has, to the queues where it is taken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from llamaweb.celery import app as jobs
from llamaweb.run.beat import clock
from tests.stack import ROOT

LOADED = """
import json, sys
from llamaweb.run.beat import clock
app = clock()
list(app.conf.beat_schedule), app.amqp.router.route({}, "inference.tasks.generation_sweep")
print(json.dumps(sorted(sys.modules)))
"""


def queue_of(app: Any, task: str) -> str:
    return str(app.amqp.router.route({}, task)["queue"].name)


def test_every_job_of_the_schedule_exists_and_goes_where_it_is_taken() -> None:
    jobs.loader.import_default_modules()
    sent = clock()
    entries = sent.conf.beat_schedule
    assert entries
    assert entries == jobs.conf.beat_schedule
    for entry in entries.values():
        assert entry["task"] in jobs.tasks
        assert queue_of(sent, entry["task"]) == queue_of(jobs, entry["task"])


def test_it_loads_neither_jobs_nor_models(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED],
        cwd=ROOT,
        env={"LLAMAWEB_DATA_DIR": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = json.loads(done.stdout)
    assert "celery" in loaded
    assert [name for name in loaded if name.startswith(("inference", "conversations"))] == []
