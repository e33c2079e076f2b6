"""The clock of the jobs: `python -m llamaweb.run.beat` is Celery's beat without the jobs.

It sends their names. So it loads neither them nor Django's apps, which would be most of its start
and of its memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.signals import setup_logging


def clock() -> Celery:
    """An application with the queues and the schedule of `llamaweb.celery`, and no task."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "llamaweb.settings")
    app = Celery("llamaweb", fixups=set())
    app.config_from_object("django.conf:settings", namespace="CELERY")
    return app


def _set_up_logging(**_kwargs: Any) -> None:
    """As Django does where its apps are loaded; Celery leaves it as it is."""
    from django.conf import settings
    from django.utils.log import configure_logging

    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)


def main(arguments: Sequence[str]) -> None:
    """Tick until told to stop; `arguments` are those of `celery beat`."""
    setup_logging.connect(_set_up_logging, weak=False)
    sys.exit(clock().start(["beat", *arguments]))


if __name__ == "__main__":
    main(sys.argv[1:])
