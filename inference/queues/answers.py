"""What the scripts answer, as values of the contract. Clients may or may not decode responses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from inference.protocol.codec import DecodeError, decode_event, decode_request, decode_snapshot
from inference.protocol.events import CancelledBy, Entry, Snapshot
from inference.protocol.fold import EMPTY, fold
from inference.protocol.requests import EngineRequest
from inference.queues.config import busy
from inference.queues.contract import (
    AppendOutcome,
    BeatReply,
    CachePurge,
    Cursor,
    EngineStatus,
    FinishedEntry,
    Load,
    Position,
    QueueConfig,
    Read,
    Reaped,
    ReasoningEnd,
    State,
    Status,
    UsageEntry,
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim as the script gives it; `anew`: the log must go on under the next incarnation.

    `request` is None where the request or the log can't be read: another version wrote it.
    """

    generation_id: str
    request: EngineRequest | None
    epoch: int
    incarnation: int
    last_seq: int
    anew: bool
    alone: bool
    queued_s: float
    resume: Snapshot | None
    reasoning_ended: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Ended:
    """A member of a finished set; sorts by time, then model and id."""

    at_ms: int
    model: str
    generation_id: str
    on_finish: str

    @property
    def entry(self) -> FinishedEntry:
        """The contract's value."""
        return FinishedEntry(self.generation_id, self.on_finish)


def text(value: Any) -> str:
    """Text of an answer, whichever way the client decodes."""
    return value.decode() if isinstance(value, bytes) else str(value)


def texts(reply: Any) -> tuple[str, ...]:
    """All of a list."""
    return tuple(text(item) for item in reply)


def entry_of(entry_id: Any, fields: Any) -> tuple[Cursor, Entry]:
    """One stream entry: its cursor and event. `fields` is a flat list or a mapping."""
    incarnation, seq = text(entry_id).split("-")
    event = next(iter(fields.values())) if isinstance(fields, dict) else fields[1]
    return Cursor(int(incarnation), int(seq)), Entry(int(seq), decode_event(event))


def submit(config: QueueConfig) -> Callable[[Any], Position]:
    """Position, or BusyError."""

    def parse(reply: Any) -> Position:
        verdict = text(reply[0])
        if verdict != "ok":
            raise busy(verdict, config, gap_ms=int(reply[1]), waiting=int(reply[2]))
        return Position(int(reply[1]), int(reply[2]))

    return parse


def reasoning_end(reply: Any) -> ReasoningEnd:
    """What came of an order to end the reasoning of a reply."""
    outcomes: dict[int, ReasoningEnd] = {1: "ok", 0: "not_enabled", -1: "unknown"}
    return outcomes[int(reply)]


def status(reply: Any) -> Status | None:
    """State of one generation."""
    if reply is None:
        return None
    state, incarnation, last, deaths, epoch, cancel, ahead, waiting, ended = reply
    return Status(
        state=cast(State, text(state)),
        incarnation=int(incarnation),
        last_seq=int(last),
        deaths=int(deaths),
        epoch=int(epoch),
        position=None if int(ahead) < 0 else Position(int(ahead), int(waiting)),
        cancel_requested=cast(CancelledBy, text(cancel)) if cancel else None,
        ended_at=int(ended) / 1000 if ended else None,
    )


def places(reply: Any) -> tuple[Position | None, ...]:
    """One position for each id asked."""
    return tuple(
        None if int(ahead) < 0 else Position(int(ahead), int(waiting)) for ahead, waiting in reply
    )


def read(cursor: Cursor) -> Callable[[Any], Read]:
    """What lies behind `cursor`."""

    def parse(reply: Any) -> Read:
        if reply is None:
            return Read(cursor, gone=True)
        incarnation = int(reply[0])
        reset, seq = None, cursor.seq
        if text(reply[1]) == "1":
            reset = decode_snapshot(reply[2]) if reply[2] else EMPTY
            seq = reset.seq
        entries = tuple(entry_of(*item)[1] for item in reply[3])
        seq = entries[-1].seq if entries else seq
        return Read(Cursor(incarnation, seq), entries, reset)

    return parse


def load(reply: Any) -> Load:
    """How busy a model is."""
    owners = texts(reply[3])
    by_owner = {owner: int(count) for owner, count in zip(owners[::2], owners[1::2], strict=True)}
    return Load(int(reply[0]), int(reply[1]), int(reply[2]), by_owner, int(reply[4]) / 1000)


def engines(reply: Any) -> tuple[EngineStatus, ...]:
    """Heartbeats by engine id."""
    found = [
        EngineStatus(age_s=int(age) / 1000, **json.loads(record)) for age, record in reply if record
    ]
    return tuple(sorted(found, key=lambda engine: engine.engine_id))


def claimed(reply: Any) -> tuple[Claimed, ...]:
    """Claims with their logs folded."""
    return tuple(_claimed(item) for item in reply)


def _claimed(item: Any) -> Claimed:
    generation_id, text_of, epoch, incarnation, last, anew, alone, queued_ms, thoughts = item[:9]
    request: EngineRequest | None = None
    resume: Snapshot | None = None
    try:
        resume = _log(*item[9:])
        request = decode_request(text_of)
    except DecodeError:
        pass  # it ends alone; the others of the batch have no part in it
    return Claimed(
        generation_id=text(generation_id),
        request=request,
        epoch=int(epoch),
        incarnation=int(incarnation),
        last_seq=int(last),
        anew=text(anew) == "1",
        alone=text(alone) == "1",
        queued_s=int(queued_ms) / 1000,
        resume=resume if resume is not None and resume.seq >= 0 else None,
        reasoning_ended=text(thoughts) == "2",
    )


def _log(snapshot: Any, entries: Any) -> Snapshot | None:
    if not snapshot and not entries:
        return None
    start = decode_snapshot(snapshot) if snapshot else EMPTY
    return fold(start, [entry_of(*entry)[1] for entry in entries])


def outcomes(reply: Any) -> tuple[AppendOutcome, ...]:
    """One outcome for each generation of the batch."""
    return tuple(cast(AppendOutcome, text(item)) for item in reply)


def beat(reply: Any) -> BeatReply:
    """Lost and cancelled generations, and what to forget."""
    lost, cancelled = texts(reply[0]), texts(reply[1])
    pairs = zip(cancelled[::2], cancelled[1::2], strict=True)
    return BeatReply(
        lost,
        tuple((item, cast(CancelledBy, by)) for item, by in pairs),
        tuple(_purge(item) for item in reply[2]),
        text(reply[3]),
        texts(reply[4]),
    )


def _purge(item: Any) -> CachePurge:
    owner_key, conversations = json.loads(item or '["",[]]')
    return CachePurge(owner_key, tuple(conversations))


def reaped(reply: Any) -> Reaped:
    """What a sweep changed."""
    return Reaped(texts(reply[0]), texts(reply[1]), texts(reply[2]))


def usage(reply: Any) -> tuple[UsageEntry, ...]:
    """Ends for the usage ledger."""
    return tuple(
        UsageEntry(text(mark), text(item), text(account), decode_event(end), int(at) / 1000)
        for mark, item, account, end, at in reply
    )


def ended(model: str) -> Callable[[Any], tuple[Ended, ...]]:
    """The finished set of `model`."""

    def parse(reply: Any) -> tuple[Ended, ...]:
        flat = texts(reply)
        rows = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        return tuple(Ended(int(at), model, item, on_finish) for at, item, on_finish in rows)

    return parse
