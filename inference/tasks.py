"""Jobs: thin entry points; each carries ids only, is idempotent and bound in time."""

from __future__ import annotations

from celery import shared_task

from inference.registry import generations

SWEEP_LIMIT_S = 30


@shared_task(name="inference.tasks.generation_finalise", queue="turns", time_limit=60)
def generation_finalise(generation_id: str) -> bool:
    """Store the result of an ended generation."""
    return generations.generation_finalise(generation_id)


@shared_task(
    name="inference.tasks.generation_sweep", queue="turns", time_limit=SWEEP_LIMIT_S, expires=5
)
def generation_sweep() -> dict[str, int]:
    """Bring open rows and the queue together again."""
    return generations.generation_sweep()
