"""Jobs: thin entry points; each carries ids only, is idempotent and bound in time."""

from __future__ import annotations

from celery import shared_task

from inference.registry import generations

FINALISE_LIMIT_S = 60
SWEEP_LIMIT_S = 30
SOFT_MARGIN_S = 5


def limits(seconds: int) -> dict[str, int]:
    """Time limits of a task: the soft one first, so that it can say what it was doing."""
    return {"time_limit": seconds, "soft_time_limit": seconds - SOFT_MARGIN_S}


@shared_task(  # type: ignore[untyped-decorator]
    name="inference.tasks.generation_finalise", queue="turns", **limits(FINALISE_LIMIT_S)
)
def generation_finalise(generation_id: str) -> bool:
    """Store the result of an ended generation."""
    return generations.generation_finalise(generation_id)


@shared_task(  # type: ignore[untyped-decorator]
    name="inference.tasks.generation_sweep", queue="turns", expires=5, **limits(SWEEP_LIMIT_S)
)
def generation_sweep() -> dict[str, int]:
    """Bring open rows and the queue together again."""
    return generations.generation_sweep()
