"""Jobs: thin entry points; each carries ids only and is idempotent.

The jobs process runs them in threads, where Celery enforces no time limits: each is bound by the
time-outs of Redis and the database, the sweep by a budget of its own, a download by those of
`llamaweb.lib.outbound`.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task
from celery.signals import worker_ready, worker_shutting_down
from kombu.exceptions import OperationalError

from inference.registry import download_job, downloads, generations, responses, scan, uploads, usage
from llamaweb.lib.errors import LlamawebError

log = logging.getLogger(__name__)


@shared_task(name="inference.tasks.generation_finalise")  # type: ignore[untyped-decorator]
def generation_finalise(generation_id: str) -> bool:
    """Store the result of an ended generation."""
    return generations.generation_finalise(generation_id)


@shared_task(name="inference.tasks.generation_sweep", expires=5)  # type: ignore[untyped-decorator]
def generation_sweep() -> dict[str, int]:
    """Bring open rows and the queue together again."""
    return generations.generation_sweep()


@shared_task(name="inference.tasks.response_purge", expires=3600)  # type: ignore[untyped-decorator]
def response_purge() -> int:
    """Remove stored responses that nobody used for long enough."""
    return responses.response_purge()


@shared_task(name="inference.tasks.model_download")  # type: ignore[untyped-decorator]
def model_download(file_id: int) -> str:
    """Fetch a model file, or what is missing of it."""
    return download_job.model_download(file_id)


@shared_task(name="inference.tasks.model_download_sweep", expires=5)  # type: ignore[untyped-decorator]
def model_download_sweep() -> int:
    """Look after downloads that wait or whose job was killed, and uploads that were given up."""
    uploads.upload_sweep()
    return downloads.model_download_sweep()


@shared_task(name="inference.tasks.models_scan", expires=60)  # type: ignore[untyped-decorator]
def models_scan() -> str:
    """Look through the models directory; returns what came of it."""
    try:
        found = scan.models_scan()
    except LlamawebError as error:
        return error.message
    return f"{found.num_models} models, {found.num_new} new, {found.num_missing} missing"


@shared_task(name="inference.tasks.usage_collect", expires=5)  # type: ignore[untyped-decorator]
def usage_collect() -> int:
    """Write what was computed for whom into the usage ledger."""
    return usage.usage_collect()


@shared_task(name="inference.tasks.usage_purge", expires=3600)  # type: ignore[untyped-decorator]
def usage_purge() -> int:
    """Remove what the ledger need not hold any more."""
    return usage.usage_purge()


@worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]
def _look_at_start(**_kwargs: Any) -> None:
    """What was put into the models directory while nothing ran is there now."""
    try:
        models_scan.apply_async(expires=60)
    except OperationalError:
        log.warning("the models directory is looked through later: the broker is away")


@worker_shutting_down.connect(weak=False)  # type: ignore[untyped-decorator]
def _stop_downloads(**_kwargs: Any) -> None:
    """The next process goes on where this one is."""
    download_job.stopping.set()
