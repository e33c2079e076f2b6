"""Jobs: thin entry points; each carries ids only and is idempotent."""

from __future__ import annotations

from celery import shared_task

from conversations import services


@shared_task(name="conversations.tasks.turn_advance")  # type: ignore[untyped-decorator]
def turn_advance(generation_id: str) -> bool:
    """Store the result of an ended generation and move its turn on."""
    return services.turn_advance(generation_id)


@shared_task(name="conversations.tasks.turn_sweep", expires=5)  # type: ignore[untyped-decorator]
def turn_sweep() -> dict[str, int]:
    """Bring turns and generations together again."""
    return services.turn_sweep()


@shared_task(name="conversations.tasks.conversation_purge")  # type: ignore[untyped-decorator]
def conversation_purge() -> int:
    """Remove what was deleted long enough ago."""
    return services.conversation_purge()
