"""The jobs' application: `celery -A llamaweb.celery worker -Q turns,work` and `beat`."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_process_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "llamaweb.settings")

app = Celery("llamaweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@worker_process_init.connect(weak=False)  # type: ignore[untyped-decorator]
def _drop_inherited_connections(**_kwargs: Any) -> None:
    """A forked child must not share its parent's database sockets or pool."""
    from django.db import connections

    for connection in connections.all(initialized_only=True):
        connection.close()
        close_pool = getattr(connection, "close_pool", None)
        if close_pool is not None:
            close_pool()


@setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
def _keep_logging(**_kwargs: Any) -> None:
    """Connected so that Celery leaves LOGGING as it is."""
