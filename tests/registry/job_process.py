"""A download in a process of its own, so that it can be killed; run as a module by `job_process`.

A real process and no fork: a fork of a process with threads may wait for ever for a lock that no
thread of its will give back.
"""

from __future__ import annotations

import ipaddress
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

DIES_WITH = 9


def job_process(file_id: int, *, dies_at: str = "") -> subprocess.Popen[bytes]:
    """Start the download job of `file_id` on this test's database and folder.

    `dies_at` names the place where the process ends by itself, with status `DIES_WITH`:
    "rename N" before the N-th file is put in its place, "config" before the model is made.
    """
    told = {
        "file_id": file_id,
        "database": connection.settings_dict["NAME"],
        "data_dir": str(settings.DATA_DIR.root),
        "hub_url": settings.HUB_URL,
        "dies_at": dies_at,
    }
    command = [sys.executable, "-m", "tests.registry.job_process", json.dumps(told)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2])


def main(told: dict[str, Any]) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "llamaweb.settings_test"
    import django

    from llamaweb.data_dir import DataDir

    settings.DATABASES["default"]["NAME"] = told["database"]
    settings.DATA_DIR = DataDir(Path(told["data_dir"]))
    settings.HUB_URL, settings.HUB_TOKEN = told["hub_url"], ""
    settings.OUTBOUND_ALLOW = (ipaddress.ip_network("127.0.0.1"),)
    django.setup()
    from inference.registry import download_fetch, download_job

    download_fetch.BACK_OFF_S = (0.0,)
    download_job.RESERVE_BYTES = 0
    download_job.WRITE_EVERY_S = 0.0
    _die_at(told["dies_at"])
    download_job.model_download(told["file_id"])


def _die_at(place: str) -> None:
    from inference.registry import download_job, download_place

    if place == "config":
        download_job._Job._make_config = _dying(download_job._Job._make_config, 1)  # type: ignore[method-assign]
    elif place:
        number = int(place.removeprefix("rename "))
        download_place.place_of = _dying(download_place.place_of, number)


def _dying(real: Callable[..., Any], number: int) -> Callable[..., Any]:
    """`real`, and the end of the process at the `number`-th call."""
    left = [number]

    def call(*args: Any) -> Any:
        left[0] -= 1
        return real(*args) if left[0] else os._exit(DIES_WITH)

    return call


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
