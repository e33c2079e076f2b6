"""The jobs' application: `llamaweb.run.jobs` runs it, `llamaweb.run.beat` only sends names."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "llamaweb.settings")

app = Celery("llamaweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect(weak=False)  # type: ignore[untyped-decorator]
def _keep_logging(**_kwargs: Any) -> None:
    """Connected so that Celery leaves LOGGING as it is."""
