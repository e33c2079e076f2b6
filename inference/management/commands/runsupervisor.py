"""`manage.py runsupervisor`: keep this host's engines running."""

from __future__ import annotations

import signal
from typing import Any

from celery import current_app
from django.conf import settings
from django.core.management.base import BaseCommand
from kombu.exceptions import OperationalError

from inference import bus
from inference.registry.services import starter_config_sync
from inference.supervisor.housekeeping import Housekeeping
from inference.supervisor.supervisor import Supervisor
from llamaweb.lib.errors import UnavailableError


def send_task(on_finish: str, generation_id: str) -> None:
    """Send the allow-listed task behind an `on_finish` name; other names are ignored.

    Raises:
        UnavailableError: the broker can't take it now.
    """
    task = settings.ON_FINISH_TASKS.get(on_finish)
    if task is None:
        return
    try:
        current_app.send_task(task, args=[generation_id])
    except OperationalError as error:
        raise UnavailableError("the job queue can't be reached") from error


class Command(BaseCommand):
    """Runs until SIGTERM."""

    help = "Start and watch the engine processes of this host."
    requires_system_checks = []  # they load every page; `make check` runs them

    def handle(self, *args: Any, **options: Any) -> None:
        """See the class."""
        starter_config_sync()
        queue = bus.sync_queue()
        supervisor = Supervisor(queue, Housekeeping(queue, send_task))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: supervisor.stop())
        supervisor.run()
