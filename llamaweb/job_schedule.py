"""Which jobs run when, and which of them somebody waits for."""

from __future__ import annotations

from typing import Any

# Short jobs that somebody waits for go to the queue `turns`, all others to `work`.
SHORT_JOBS = (
    "conversations.tasks.turn_*",
    "inference.tasks.generation_*",
    "inference.tasks.model_download_sweep",
    "inference.tasks.usage_collect",
)


def _every(seconds: float, task: str, *, expires_s: int) -> dict[str, Any]:
    """`expires_s`: a job that nobody took until then isn't run any more."""
    return {"task": task, "schedule": seconds, "options": {"expires": expires_s}}


SCHEDULE: dict[str, Any] = {
    "generation-sweep": _every(5.0, "inference.tasks.generation_sweep", expires_s=5),
    "model-download-sweep": _every(5.0, "inference.tasks.model_download_sweep", expires_s=5),
    "models-scan": _every(300.0, "inference.tasks.models_scan", expires_s=60),
    "usage-collect": _every(5.0, "inference.tasks.usage_collect", expires_s=5),
    "usage-purge": _every(3600.0, "inference.tasks.usage_purge", expires_s=3600),
    "turn-sweep": _every(5.0, "conversations.tasks.turn_sweep", expires_s=5),
    "conversation-purge": _every(3600.0, "conversations.tasks.conversation_purge", expires_s=3600),
    "response-purge": _every(3600.0, "inference.tasks.response_purge", expires_s=3600),
    # The scheduler counts from its start: once a day would be never, where it restarts daily.
    "session-purge": _every(3600.0, "llamaweb.accounts.tasks.session_purge", expires_s=3600),
}
