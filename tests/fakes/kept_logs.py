"""A stand-in for `inference.api` whose logs stay: they may be cut, and be shown bit by bit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

import pytest

from inference import api
from inference.api import StreamRecord
from inference.protocol.events import Cancelled, CancelledBy, Entry, Event, Snapshot, is_terminal
from inference.protocol.fold import EMPTY, fold
from inference.protocol.requests import GenerateRequest
from inference.queues.contract import START, Cursor, Position, Read, Status
from inference.queues.stream_record import decode_record, encode_record
from llamaweb.lib.errors import BusyError
from tests.fakes.inference_api import FakeInference, scripted

LOOK_S = 0.001
NAMES = (
    "generation_read",
    "generation_status",
    "stream_remember",
    "stream_list",
    "stream_forget",
)


@dataclass
class KeptLogs(FakeInference):
    """`says` makes the log of a request; of each `shown` entries are written. `heads`: what a log
    was cut to. `max_answers`: of one owner's streams."""

    script: Callable[..., AsyncIterator[Event | Position | Read]] = field(default=scripted())
    says: Callable[[GenerateRequest], Sequence[Event]] = lambda _request: ()
    shown: int = 10**9
    max_answers: int = 8
    logs: dict[str, list[Entry]] = field(default_factory=dict)
    heads: dict[str, Snapshot] = field(default_factory=dict)
    ended_at: dict[str, float] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    books: dict[str, dict[str, str]] = field(default_factory=dict)
    num_reads: int = 0

    def cut(self, generation_id: str, seq: int) -> None:
        """Fold the entries up to `seq`."""
        log = self._log(generation_id)
        self.heads[generation_id] = fold(EMPTY, [entry for entry in log if entry.seq <= seq])

    async def generation_submit(self, request: GenerateRequest) -> Position:
        position = await super().generation_submit(request)
        events = enumerate(self.says(request))
        self.logs[request.generation_id] = [Entry(seq, event) for seq, event in events]
        return position

    async def generation_events(  # type: ignore[override]
        self, model: str, generation_id: str, cursor: Cursor = START, *, expected: bool = False
    ) -> AsyncIterator[Read | Position]:
        self.reading.add(generation_id)
        try:
            while True:
                read = self._read(generation_id, cursor, 1)
                if read.gone or read.entries or read.reset is not None:
                    yield read
                if read.gone or self._is_end(generation_id, read.cursor):
                    return
                if read.cursor == cursor:
                    await asyncio.sleep(LOOK_S)
                cursor = read.cursor
        finally:
            self.reading.discard(generation_id)

    async def generation_read(self, model: str, generation_id: str, cursor: Cursor = START) -> Read:
        self.num_reads += 1
        return self._read(generation_id, cursor, 512)

    async def generation_status(self, model: str, generation_id: str) -> Status | None:
        if generation_id in self.gone or generation_id not in self.logs:
            return None
        log = self._log(generation_id)
        has_ended = bool(log) and is_terminal(log[-1].event)
        ended_at = self.ended_at.get(generation_id, 1_800_000_000.0) if has_ended else None
        state = "ended" if has_ended else "running"
        return Status(state, 1, len(log) - 1, 0, 1, ended_at=ended_at)

    async def generation_cancel(
        self, model: str, generation_id: str, by: CancelledBy = "user"
    ) -> bool:
        await super().generation_cancel(model, generation_id, by)
        log = self._log(generation_id)
        if log and is_terminal(log[-1].event):
            return False
        self.logs[generation_id] = [*log, Entry(len(log), Cancelled(by))]
        return True

    async def stream_remember(self, owner_key: str, record: StreamRecord) -> StreamRecord | None:
        book = self.books.setdefault(owner_key, {})
        others = [decode_record(t) for name, t in book.items() if name != record.stream_id]
        if sum(len(r.requests) for r in others) + len(record.requests) > self.max_answers:
            raise BusyError("too many", reason="owner_streams", retry_after_s=5)
        old = book.get(record.stream_id)
        book[record.stream_id] = encode_record(record)
        return decode_record(old) if old else None

    async def stream_list(self, owner_key: str) -> list[StreamRecord]:
        return [decode_record(text) for text in self.books.get(owner_key, {}).values()]

    async def stream_forget(self, owner_key: str, record: StreamRecord) -> bool:
        old = self.books.get(owner_key, {}).get(record.stream_id)
        if old is None or decode_record(old).ids != record.ids:
            return False
        del self.books[owner_key][record.stream_id]
        return True

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().install(monkeypatch)
        for name in NAMES:
            monkeypatch.setattr(api, name, getattr(self, name))

    def _log(self, generation_id: str) -> list[Entry]:
        return self.logs.get(generation_id, [])[: self.shown]

    def _is_end(self, generation_id: str, cursor: Cursor) -> bool:
        log = self._log(generation_id)
        return bool(log) and log[-1].seq <= cursor.seq and is_terminal(log[-1].event)

    def _read(self, generation_id: str, cursor: Cursor, limit: int) -> Read:
        if generation_id in self.gone or generation_id not in self.logs:
            return Read(cursor, gone=True)
        head, seq = self.heads.get(generation_id), cursor.seq
        reset = head if head is not None and head.seq > seq else None
        seq = seq if reset is None else reset.seq
        entries = tuple(e for e in self._log(generation_id) if e.seq > seq)[:limit]
        last = entries[-1].seq if entries else seq
        return Read(Cursor(1, last), entries, reset)
