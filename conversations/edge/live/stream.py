"""A generation's log as stream frames. Pure: what the reader of its log yields in, frames out.

Token ids and probabilities stop here; clients get text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from conversations.edge.live.bounds import CHUNK_BYTES
from conversations.edge.live.frames import Place, Prefill, StreamEnd, StreamFrame
from inference.api import START, Cursor, Position, Read
from inference.protocol.events import (
    Cancelled,
    Delta,
    DeltaKind,
    Entry,
    Failed,
    Finished,
    Progress,
    Snapshot,
    Started,
    Terminal,
)
from inference.protocol.fold import call_json

MAX_CURSOR_INT = 2**53  # what Redis' scripts count exactly
Run = tuple[DeltaKind, str]
CALL_END = '"}'  # of the JSON line that a tool call is written as
GONE = StreamEnd(state="gone", message="the text so far is lost; the stored answer follows")


def cursor_text(cursor: Cursor) -> str:
    """The form clients keep."""
    return f"{cursor.incarnation}:{cursor.seq}"


def cursor_parse(text: str) -> Cursor | None:
    """A client's cursor; None when it names no text: then it starts anew."""
    incarnation, _, seq = text.partition(":")
    found = Cursor(int(incarnation), int(seq))
    is_usable = 0 <= found.seq < MAX_CURSOR_INT and found.incarnation < MAX_CURSOR_INT
    return found if is_usable else None


def runs_join(runs: Iterable[Run]) -> list[Run]:
    """Neighbours of one kind as one, empty ones left out."""
    joined: list[tuple[DeltaKind, list[str]]] = []
    for kind, text in runs:
        if joined and joined[-1][0] == kind:
            joined[-1][1].append(text)
        elif text:
            joined.append((kind, [text]))
    return [(kind, "".join(texts)) for kind, texts in joined]


class StreamFold:
    """One reader of one generation. Without a `cursor` its first text resets the client's."""

    def __init__(
        self, conversation_id: str, turn_id: str, generation_id: str, cursor: Cursor | None = None
    ) -> None:
        self._ids = (conversation_id, turn_id, generation_id)
        self._reset = cursor is None
        self._cached = 0
        self.cursor = cursor or START
        self.has_ended = False

    def take(self, item: Read | Position) -> list[StreamFrame]:
        """The frames of what the log's reader gave; none when nothing shows."""
        if isinstance(item, Position):
            return [self.place(Place(ahead=item.ahead, waiting=item.waiting))]
        if item.gone:
            return [self._frame(end=GONE)]
        frames: list[StreamFrame] = []
        if item.reset is not None:
            at = Cursor(item.cursor.incarnation, item.reset.seq)
            frames = self._snapshot(item.reset, at)
        self.cursor = item.cursor
        if item.entries:
            frames += self._entries(item.entries)
        return frames

    def place(self, place: Place) -> StreamFrame:
        """A frame that says where it stands."""
        return self._frame(place=place)

    def _entries(self, entries: Iterable[Entry]) -> list[StreamFrame]:
        runs: list[Run] = []
        prefill: Prefill | None = None
        end: StreamEnd | None = None
        for entry in entries:
            event = entry.event
            if isinstance(event, Delta):
                runs.append((event.kind, _shown(event)))
            elif isinstance(event, Started):
                self._cached = event.cached_tokens
                prefill = self._prefill(event.cached_tokens, event.prompt_tokens)
            elif isinstance(event, Progress):
                prefill = self._prefill(event.done, event.total)
            elif isinstance(event, Finished | Failed | Cancelled):
                end = self._end(event)
        deltas = runs_join(runs)
        if not (deltas or prefill or end or self._reset):
            return []  # ids whose text is held back, or events of a later version
        return [self._frame(deltas=deltas, prefill=prefill, end=end)]

    def _snapshot(self, snapshot: Snapshot, at: Cursor) -> list[StreamFrame]:
        """All text so far in pieces. Only the last one's cursor stands for it: a client that is
        cut off in between starts anew."""
        prefill = None
        if snapshot.started is not None:
            self._cached = snapshot.started.cached_tokens
            prefill = self._prefill(self._cached, snapshot.started.prompt_tokens)
        if snapshot.progress is not None:
            prefill = self._prefill(snapshot.progress.done, snapshot.progress.total)
        pieces = _pieces(_runs(snapshot)) or [[]]
        frames = []
        self._reset = True
        self.cursor = Cursor(at.incarnation, -1)
        for index, deltas in enumerate(pieces):
            is_last = index == len(pieces) - 1
            if is_last:
                self.cursor = at
            end = self._end(snapshot.terminal) if is_last and snapshot.terminal else None
            frames.append(self._frame(deltas=deltas, prefill=prefill, end=end))
            prefill = None
        return frames

    def _prefill(self, done: int, total: int) -> Prefill:
        return Prefill(done=done, total=total, cached=self._cached)

    def _end(self, event: Terminal) -> StreamEnd:
        self.has_ended = True
        if isinstance(event, Finished):
            return StreamEnd(state="finished", code=event.reason)
        if isinstance(event, Failed):
            return StreamEnd(state="failed", code=event.code, message=event.message)
        return StreamEnd(state="cancelled", code=event.by)

    def _frame(
        self,
        *,
        deltas: list[Run] | None = None,
        place: Place | None = None,
        prefill: Prefill | None = None,
        end: StreamEnd | None = None,
    ) -> StreamFrame:
        conversation_id, turn_id, generation_id = self._ids
        reset, self._reset = self._reset, False
        return StreamFrame(
            conversation_id=conversation_id,
            turn_id=turn_id,
            generation_id=generation_id,
            cursor=cursor_text(self.cursor),
            reset=reset,
            deltas=deltas or [],
            place=place,
            prefill=prefill,
            end=end,
        )


def _shown(delta: Delta) -> str:
    """The text of a delta: a tool call is written as one line of JSON, as it comes."""
    if delta.kind != "tool_call" or delta.call is None:
        return delta.text
    head = call_json(delta.call, "").removesuffix(CALL_END) if delta.call.id else ""
    return head + _escaped(delta.text) + (CALL_END + "\n" if delta.call.end else "")


def _runs(snapshot: Snapshot) -> Iterable[Run]:
    """All runs so far, as the deltas would have made them."""
    calls = iter(snapshot.calls)
    for kind, text in snapshot.parts:
        call = next(calls, None) if kind == "tool_call" else None
        yield kind, _shown(Delta(text, (), kind=kind, call=call))


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _pieces(runs: Iterable[Run]) -> list[list[Run]]:
    """`runs` in pieces of about CHUNK_BYTES (characters)."""
    pieces: list[list[Run]] = []
    room = 0
    for kind, whole in runs:
        text = whole
        while text:
            if room <= 0:
                pieces.append([])
                room = CHUNK_BYTES
            pieces[-1].append((kind, text[:room]))
            text, room = text[room:], room - len(text[:room])
    return pieces
