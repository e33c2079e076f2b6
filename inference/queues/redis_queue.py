"""The queue on Redis through a blocking client: for engines, jobs and the supervisor.

Each operation is one script call (`commands`), so it is atomic and may be sent again after a
broken connection. `async_queue` is the web's side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import redis
from redis.exceptions import NoScriptError

from inference.protocol.events import CancelledBy, Snapshot, Terminal
from inference.protocol.requests import EngineRequest
from inference.queues import terminals
from inference.queues.answers import Claimed, text, texts
from inference.queues.commands import Command, Commands, no_offset
from inference.queues.connect import LONGEST_BLOCK_S, unavailable
from inference.queues.contract import (
    UTILITIES_A_CLAIM,
    Append,
    AppendOutcome,
    Beat,
    BeatReply,
    CachePurge,
    Claim,
    Cursor,
    EngineStatus,
    FinishedEntry,
    Load,
    Position,
    QueueConfig,
    Read,
    Reaped,
    ReasoningEnd,
    Status,
    UsageEntry,
)
from inference.queues.keys import model_keys, models_key
from inference.queues.scripts import script
from llamaweb.lib.ids import new_id

T = TypeVar("T")
DEFAULT_CONFIG = QueueConfig()


class RedisQueue:
    """`Queue` on a blocking client; safe to share between threads.

    `client` comes from `connect.sync_client`. `prefix` goes before every key.
    """

    def __init__(
        self,
        client: redis.Redis,
        prefix: str,
        config: QueueConfig = DEFAULT_CONFIG,
        *,
        offset_s: Callable[[], float] = no_offset,
    ) -> None:
        self._client = client
        self._commands = Commands(prefix, config, offset_s)
        self._nonces: dict[tuple[str, str], str] = {}  # (model, engine) -> claim in flight
        self.config = config
        self.prefix = prefix

    def _run(self, command: Command[T]) -> T:
        code = script(command.script)
        with unavailable():
            try:
                reply = self._client.evalsha(
                    code.sha, len(command.keys), *command.keys, *map(str, command.args)
                )
            except NoScriptError:
                reply = self._client.eval(
                    code.text, len(command.keys), *command.keys, *map(str, command.args)
                )
        return command.parse(reply)

    def ping(self) -> None:
        """Return when the server answers; else UnavailableError."""
        with unavailable():
            self._client.ping()

    def run_id(self) -> str:
        """Name of the server process; another one may have lost what this one acknowledged."""
        with unavailable():
            return text(cast("dict[str, Any]", self._client.info("server"))["run_id"])

    # --- callers

    def submit(self, request: EngineRequest, *, reader_id: str | None = None) -> Position:
        """See `Queue.submit`."""
        with unavailable():
            self._client.sadd(models_key(self.prefix), request.model)
        return self._run(self._commands.submit(request, reader_id))

    def cancel(self, model: str, generation_id: str, by: CancelledBy) -> bool:
        """See `Queue.cancel`."""
        return self._run(self._commands.cancel(model, generation_id, by))

    def end_reasoning(self, model: str, reply_id: str, owner_key: str) -> ReasoningEnd:
        """See `Queue.end_reasoning`."""
        return self._run(self._commands.end_reasoning(model, reply_id, owner_key))

    def status(self, model: str, generation_id: str) -> Status | None:
        """See `Queue.status`."""
        return self._run(self._commands.status(model, generation_id))

    def read(self, model: str, generation_id: str, cursor: Cursor, *, limit: int = 512) -> Read:
        """See `Queue.read`."""
        return self._run(self._commands.read(model, generation_id, cursor, limit))

    def reader_renew(
        self, model: str, reader_id: str, generation_ids: Sequence[str]
    ) -> tuple[str, ...]:
        """See `Queue.reader_renew`."""
        return self._run(self._commands.reader_renew(model, generation_ids))

    def purge(self, model: str, purge: CachePurge) -> None:
        """See `Queue.purge`."""
        self._run(self._commands.purge(model, purge))

    def load(self, model: str) -> Load:
        """See `Queue.load`."""
        return self._run(self._commands.load(model))

    def engines(self, model: str) -> tuple[EngineStatus, ...]:
        """See `Queue.engines`."""
        return self._run(self._commands.engines(model))

    def models(self) -> tuple[str, ...]:
        """See `Queue.models`."""
        with unavailable():
            return tuple(sorted(texts(self._client.smembers(models_key(self.prefix)))))

    # --- engines

    def claim(
        self,
        model: str,
        engine_id: str,
        *,
        slots: int,
        idle: bool,
        utilities: int = UTILITIES_A_CLAIM,
    ) -> tuple[Claim, ...]:
        """See `Queue.claim`. A call that failed is asked again under the same name, so leases
        whose answer was lost on the way aren't lost with it."""
        nonce = self._nonces.setdefault((model, engine_id), new_id())
        found = self._run(self._commands.claim(model, engine_id, slots, idle, nonce, utilities))
        claims = [self._claim(model, engine_id, claimed) for claimed in found]
        self._nonces.pop((model, engine_id), None)
        return tuple(claim for claim in claims if claim is not None)

    def _claim(self, model: str, engine_id: str, claimed: Claimed) -> Claim | None:
        incarnation = claimed.incarnation
        if claimed.request is None:
            end = (terminals.UNREADABLE,)
            seq = claimed.last_seq + 1
            item = Append(claimed.generation_id, claimed.epoch, incarnation, seq, end)
            self.append(model, engine_id, [item])
            return None
        if claimed.anew and claimed.resume is not None:
            if not self._run(self._commands.rebase(model, engine_id, claimed, claimed.resume)):
                return None
            incarnation += 1
        return Claim(
            request=claimed.request,
            epoch=claimed.epoch,
            incarnation=incarnation,
            resume=claimed.resume,
            alone=claimed.alone,
            queued_s=claimed.queued_s,
            reasoning_ended=claimed.reasoning_ended,
        )

    def append(
        self, model: str, engine_id: str, batch: Sequence[Append]
    ) -> tuple[AppendOutcome, ...]:
        """See `Queue.append`."""
        return self._run(self._commands.append(model, engine_id, batch))

    def fold(
        self, model: str, engine_id: str, generation_id: str, epoch: int, snapshot: Snapshot
    ) -> bool:
        """See `Queue.fold`."""
        return self._run(self._commands.fold(model, engine_id, generation_id, epoch, snapshot))

    def restore(self, engine_id: str, claim: Claim, snapshot: Snapshot) -> bool:
        """See `Queue.restore`."""
        with unavailable():
            self._client.sadd(models_key(self.prefix), claim.request.model)
        return self._run(self._commands.restore(engine_id, claim, snapshot))

    def release(self, model: str, engine_id: str, generation_id: str, epoch: int) -> bool:
        """See `Queue.release`."""
        return self._run(self._commands.release(model, engine_id, generation_id, epoch))

    def beat(self, model: str, beat: Beat) -> BeatReply:
        """See `Queue.beat`."""
        return self._run(self._commands.beat(model, beat))

    # --- sweep and supervisor

    def reap(self, model: str) -> Reaped:
        """See `Queue.reap`."""
        return self._run(self._commands.reap(model))

    def engine_gone(self, model: str, engine_id: str, *, death: bool = True) -> tuple[str, ...]:
        """See `Queue.engine_gone`."""
        return self._run(self._commands.engine_gone(model, engine_id, death))

    def fail_queued(self, model: str, terminal: Terminal) -> tuple[str, ...]:
        """See `Queue.fail_queued`."""
        return self._run(self._commands.fail_queued(model, terminal))

    def finished(self, *, limit: int = 100) -> tuple[tuple[str, FinishedEntry], ...]:
        """See `Queue.finished`."""
        found = [
            ended
            for model in self.models()
            for ended in self._run(self._commands.finished(model, limit))
        ]
        return tuple((ended.model, ended.entry) for ended in sorted(found)[:limit])

    def finished_ack(self, model: str, generation_id: str) -> None:
        """See `Queue.finished_ack`."""
        self._run(self._commands.finished_ack(model, generation_id))

    def usage(self, model: str, *, limit: int = 500) -> tuple[UsageEntry, ...]:
        """See `Queue.usage`."""
        return self._run(self._commands.usage(model, limit))

    def usage_ack(self, model: str, marks: Sequence[str]) -> None:
        """See `Queue.usage_ack`."""
        if marks:
            self._run(self._commands.usage_ack(model, marks))

    # --- waiting

    def wait_control(self, model: str, after: str, timeout_s: float) -> str:
        """See `Queue.wait_control`. Waits `connect.LONGEST_BLOCK_S` at most; "" doesn't wait."""
        key = model_keys(self.prefix, model).control
        with unavailable():
            if not after:
                newest = cast("list[Any]", self._client.xrevrange(key, count=1))
                return text(newest[0][0]) if newest else "0-0"
            block_ms = max(1, int(min(timeout_s, LONGEST_BLOCK_S) * 1000))
            found: Any = self._client.xread({key: after}, block=block_ms)
        if not found:
            return after
        ((_, entries),) = found.items() if isinstance(found, dict) else found
        return text(entries[-1][0])
