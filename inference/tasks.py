"""Jobs: thin entry points; each carries ids only and is idempotent.

The jobs process runs them in threads, where Celery enforces no time limits: each is bound by the
time-outs of Redis and the database, and the sweep by a budget of its own.
"""

from __future__ import annotations

from celery import shared_task

from inference.registry import generations


@shared_task(name="inference.tasks.generation_finalise", queue="turns")  # type: ignore[untyped-decorator]
def generation_finalise(generation_id: str) -> bool:
    """Store the result of an ended generation."""
    return generations.generation_finalise(generation_id)


@shared_task(name="inference.tasks.generation_sweep", queue="turns", expires=5)  # type: ignore[untyped-decorator]
def generation_sweep() -> dict[str, int]:
    """Bring open rows and the queue together again."""
    return generations.generation_sweep()
