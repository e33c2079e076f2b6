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
SCHEDULE: dict[str, Any] = {
    "generation-sweep": {
        "task": "inference.tasks.generation_sweep",
        "schedule": 5.0,
        "options": {"expires": 5},
    },
    "model-download-sweep": {
        "task": "inference.tasks.model_download_sweep",
        "schedule": 5.0,
        "options": {"expires": 5},
    },
    "models-scan": {
        "task": "inference.tasks.models_scan",
        "schedule": 300.0,
        "options": {"expires": 60},
    },
    "usage-collect": {
        "task": "inference.tasks.usage_collect",
        "schedule": 5.0,
        "options": {"expires": 5},
    },
    "usage-purge": {
        "task": "inference.tasks.usage_purge",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "turn-sweep": {
        "task": "conversations.tasks.turn_sweep",
        "schedule": 5.0,
        "options": {"expires": 5},
    },
    "conversation-purge": {
        "task": "conversations.tasks.conversation_purge",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    "response-purge": {
        "task": "inference.tasks.response_purge",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
    # The scheduler counts from its start: once a day would be never, where it restarts daily.
    "session-purge": {
        "task": "llamaweb.accounts.tasks.session_purge",
        "schedule": 3600.0,
        "options": {"expires": 3600},
    },
}
