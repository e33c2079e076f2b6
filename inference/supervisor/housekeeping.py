"""The queue's housekeeping, done beside the engines: leases that ended, results nobody stored."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from inference.protocol.events import Failed
from inference.protocol.reasons import Reason
from inference.queues.contract import Queue
from inference.registry.selectors import not_loaded

log = logging.getLogger(__name__)

DISPATCH_AGAIN_S = 10.0  # a finished entry whose task was sent this long ago is sent again


class Housekeeping:
    """`send_task(on_finish, generation_id)` sends the job that stores a result."""

    def __init__(self, queue: Queue, send_task: Callable[[str, str], None]) -> None:
        self._queue = queue
        self._send_task = send_task
        self._sent: dict[str, float] = {}

    def reap(self, model: str) -> None:
        """Take back the leases that ended, end what waited too long."""
        reaped = self._queue.reap(model)
        if reaped.requeued or reaped.failed:
            log.warning(
                "model %s: %d leases ended, %d requests given up",
                model,
                len(reaped.requeued),
                len(reaped.failed),
            )

    def refuse(self, model: str, reason: str) -> None:
        """End what waits for a model that nothing can serve."""
        self._fail_waiting(model, f"the model can't be loaded: {reason}")

    def refuse_for(self, model: str, reason: Reason) -> None:
        """End what waits for a model that there is never room for."""
        self._fail_waiting(model, reason.hidden)

    def _fail_waiting(self, model: str, reason: str) -> None:
        refused = self._queue.fail_queued(model, Failed("model_unavailable", reason))
        if refused:
            log.warning("model %s: %d requests refused: %s", model, len(refused), reason)

    def refuse_strays(self, served: set[str], unloaded: set[str]) -> None:
        """End what waits for models that are unloaded, disabled, renamed or gone."""
        for model in self._queue.models():
            if model in unloaded:
                self._fail_waiting(model, not_loaded(model))
            elif model not in served:
                self.refuse(model, "it isn't served any more")

    def dispatch(self) -> None:
        """Send the task of every owned generation that ended and isn't stored."""
        now = time.monotonic()
        entries = self._queue.finished()
        pending = {entry.generation_id for _, entry in entries}
        self._sent = {gid: ts for gid, ts in self._sent.items() if gid in pending}
        for _, entry in entries:
            if now - self._sent.get(entry.generation_id, -DISPATCH_AGAIN_S) >= DISPATCH_AGAIN_S:
                self._sent[entry.generation_id] = now
                self._send_task(entry.on_finish, entry.generation_id)
