"""The jobs process: Celery's worker, whose metrics add up with those of the web processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from llamaweb.boot import boot


def main(arguments: Sequence[str]) -> None:
    """Work until told to stop; `arguments` are those of `celery worker`."""
    # Read when the metrics are defined: all processes of the instance write to one folder.
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(boot().data_dir.metrics)
    from llamaweb import job_metrics
    from llamaweb.celery import app

    job_metrics.watch_jobs()
    sys.exit(app.start(["worker", *arguments]))


if __name__ == "__main__":
    main(sys.argv[1:])
