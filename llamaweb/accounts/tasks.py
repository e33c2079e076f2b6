"""Jobs: thin entry points; each is idempotent."""

from __future__ import annotations

from celery import shared_task

from llamaweb.accounts.session_services import sessions_purge


@shared_task(name="llamaweb.accounts.tasks.session_purge")  # type: ignore[untyped-decorator]
def session_purge() -> int:
    """Remove the rows of sessions that have expired."""
    return sessions_purge()
