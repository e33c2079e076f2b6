"""Every operation of the queue as a value: which script, with what, and how to read its answer.

No input or output here, so the blocking and the asyncio client share all of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from inference.protocol.codec import encode_event, encode_request, encode_snapshot
from inference.protocol.events import CancelledBy, Snapshot, Terminal, Usage
from inference.protocol.requests import EngineRequest
from inference.queues import answers, terminals
from inference.queues.config import ms, script_config
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
    Load,
    Position,
    QueueConfig,
    Read,
    Reaped,
    ReasoningEnd,
    Status,
    UsageEntry,
)
from inference.queues.facts import (
    describe_event,
    lane_of,
    needs_reader,
    on_finish_of,
    reply_of,
    snapshot_usage,
    terminal_text,
)
from inference.queues.keys import model_keys

T = TypeVar("T")
Arg = str | int


@dataclass(frozen=True, slots=True)
class Command(Generic[T]):
    """One call of a script. `parse` may raise what the operation may raise."""

    script: str
    keys: tuple[str, ...]
    args: tuple[Arg, ...]
    parse: Callable[[Any], T]


def no_offset() -> float:
    """The server's own clock."""
    return 0.0


class Commands:
    """Builds commands for the queues under one prefix.

    `offset_s` is added to the server's clock at each call, so that tests can move time.
    """

    def __init__(
        self, prefix: str, config: QueueConfig, offset_s: Callable[[], float] = no_offset
    ) -> None:
        self.prefix = prefix
        self.config = config
        self._offset_s = offset_s
        self._config_text = script_config(config)
        self._terminals = json.dumps(
            {name: encode_event(event) for name, event in terminals.named().items()}
        )

    def _command(
        self, script: str, model: str, args: Sequence[Arg], parse: Callable[[Any], T]
    ) -> Command[T]:
        common = (self._config_text, ms(self._offset_s()), self._terminals)
        return Command(script, (model_keys(self.prefix, model).meta,), (*common, *args), parse)

    # --- callers

    def submit(self, request: EngineRequest, reader_id: str | None) -> Command[Position]:
        """See `Queue.submit`."""
        args = (
            request.generation_id,
            encode_request(request),
            lane_of(request),
            request.owner_key,
            on_finish_of(request),
            ms(request.deadline_at),
            ms(request.submitted_at),
            "1" if needs_reader(request) else "0",
            "1" if reader_id is not None else "0",
            *_reply_args(request),
            request.account,
        )
        return self._command("submit", request.model, args, answers.submit(self.config))

    def cancel(self, model: str, generation_id: str, by: CancelledBy) -> Command[bool]:
        """See `Queue.cancel`."""
        return self._command("cancel", model, (generation_id, by), bool)

    def end_reasoning(self, model: str, reply_id: str, owner_key: str) -> Command[ReasoningEnd]:
        """See `Queue.end_reasoning`."""
        return self._command("end_reasoning", model, (reply_id, owner_key), answers.reasoning_end)

    def status(self, model: str, generation_id: str) -> Command[Status | None]:
        """See `Queue.status`."""
        return self._command("status", model, (generation_id,), answers.status)

    def places(
        self, model: str, generation_ids: Sequence[str]
    ) -> Command[tuple[Position | None, ...]]:
        """Place of each generation in the queue; None if it doesn't wait."""
        return self._command("places", model, tuple(generation_ids), answers.places)

    def read(self, model: str, generation_id: str, cursor: Cursor, limit: int) -> Command[Read]:
        """See `Queue.read`."""
        args = (generation_id, cursor.incarnation, cursor.seq, limit)
        return self._command("read", model, args, answers.read(cursor))

    def reader_renew(self, model: str, generation_ids: Sequence[str]) -> Command[tuple[str, ...]]:
        """See `Queue.reader_renew`."""
        return self._command("reader_renew", model, tuple(generation_ids), answers.texts)

    def purge(self, model: str, purge: CachePurge) -> Command[bool]:
        """See `Queue.purge`."""
        text = json.dumps([purge.owner_key, purge.conversations])
        return self._command("purge", model, (text,), bool)

    def load(self, model: str) -> Command[Load]:
        """See `Queue.load`."""
        return self._command("load", model, (), answers.load)

    def engines(self, model: str) -> Command[tuple[EngineStatus, ...]]:
        """See `Queue.engines`."""
        return self._command("engines", model, (), answers.engines)

    # --- engines

    def claim(
        self,
        model: str,
        engine_id: str,
        slots: int,
        idle: bool,
        nonce: str,
        utilities: int = UTILITIES_A_CLAIM,
    ) -> Command[tuple[answers.Claimed, ...]]:
        """See `Queue.claim`. The same `nonce` again gives the same answer."""
        args = (engine_id, slots, "1" if idle else "0", nonce, min(utilities, UTILITIES_A_CLAIM))
        return self._command("claim", model, args, answers.claimed)

    def rebase(
        self, model: str, engine_id: str, claimed: answers.Claimed, snapshot: Snapshot
    ) -> Command[bool]:
        """Continue a claimed generation as the next incarnation, from `snapshot`."""
        args = (
            engine_id,
            claimed.generation_id,
            claimed.epoch,
            claimed.incarnation + 1,
            encode_snapshot(snapshot),
            snapshot.seq,
        )
        return self._command("rebase", model, args, bool)

    def append(
        self, model: str, engine_id: str, batch: Sequence[Append]
    ) -> Command[tuple[AppendOutcome, ...]]:
        """See `Queue.append`."""
        args: list[Arg] = [engine_id]
        for item in batch:
            args += [item.generation_id, item.epoch, item.incarnation, item.first_seq]
            args.append(len(item.events))
            for event in item.events:
                args += [*describe_event(event), encode_event(event)]
        return self._command("append", model, args, answers.outcomes)

    def fold(
        self, model: str, engine_id: str, generation_id: str, epoch: int, snapshot: Snapshot
    ) -> Command[bool]:
        """See `Queue.fold`."""
        args = (engine_id, generation_id, epoch, encode_snapshot(snapshot), snapshot.seq)
        return self._command("fold", model, args, bool)

    def restore(self, engine_id: str, claim: Claim, snapshot: Snapshot) -> Command[bool]:
        """See `Queue.restore`."""
        request, usage = claim.request, snapshot_usage(snapshot)
        args = (
            engine_id,
            request.generation_id,
            claim.epoch,
            claim.incarnation,
            encode_snapshot(snapshot),
            snapshot.seq,
            usage.prompt_tokens,
            usage.cached_tokens,
            usage.completion_tokens,
            "1" if snapshot.terminal is not None else "0",
            self.config.max_deaths if claim.alone else 0,
            encode_request(request),
            lane_of(request),
            request.owner_key,
            on_finish_of(request),
            ms(request.deadline_at),
            ms(request.submitted_at),
            "1" if needs_reader(request) else "0",
            *_reply_args(request),
            request.account,
            terminal_text(snapshot),
        )
        return self._command("restore", request.model, args, bool)

    def release(self, model: str, engine_id: str, generation_id: str, epoch: int) -> Command[bool]:
        """See `Queue.release`."""
        return self._command("release", model, (engine_id, generation_id, epoch), bool)

    def beat(self, model: str, beat: Beat) -> Command[BeatReply]:
        """See `Queue.beat`."""
        record = json.dumps(
            {
                "engine_id": beat.engine_id,
                "state": beat.state,
                "steps": beat.steps,
                "running": len(beat.running),
                "waiting_for_step": beat.waiting_for_step,
                "info": dict(beat.info),
            }
        )
        args: list[Arg] = [beat.engine_id, record, beat.mark]
        for generation_id, epoch in beat.running:
            args += [generation_id, epoch]
        return self._command("beat", model, args, answers.beat)

    # --- sweep and supervisor

    def reap(self, model: str) -> Command[Reaped]:
        """See `Queue.reap`."""
        return self._command("reap", model, (), answers.reaped)

    def engine_gone(self, model: str, engine_id: str, death: bool) -> Command[tuple[str, ...]]:
        """See `Queue.engine_gone`."""
        args = (engine_id, "1" if death else "0")
        return self._command("engine_gone", model, args, answers.texts)

    def fail_queued(self, model: str, terminal: Terminal) -> Command[tuple[str, ...]]:
        """See `Queue.fail_queued`."""
        text = encode_event(terminals.with_usage(terminal, Usage()))
        return self._command("fail_queued", model, (text,), answers.texts)

    def finished(self, model: str, limit: int) -> Command[tuple[answers.Ended, ...]]:
        """The finished set of one model, oldest first."""
        return self._command("finished", model, (limit,), answers.ended(model))

    def finished_ack(self, model: str, generation_id: str) -> Command[bool]:
        """See `Queue.finished_ack`."""
        return self._command("finished_ack", model, (generation_id,), bool)

    def usage(self, model: str, limit: int) -> Command[tuple[UsageEntry, ...]]:
        """See `Queue.usage`."""
        return self._command("usage", model, (limit,), answers.usage)

    def usage_ack(self, model: str, marks: Sequence[str]) -> Command[bool]:
        """See `Queue.usage_ack`."""
        return self._command("usage_ack", model, tuple(marks), bool)


def _reply_args(request: EngineRequest) -> tuple[str, str]:
    reply_id, is_allowed = reply_of(request)
    return reply_id, "1" if is_allowed else "0"
