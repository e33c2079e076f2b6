"""A reader of one generation's log without a server: what it is sent, and what it has then."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from inference.edge.errors import end_error
from inference.edge.following import Batch
from inference.edge.places import EventId
from inference.edge.rejoining import Account, Seen
from inference.edge.rendering import Rendering
from inference.edge.wire import Wire
from inference.protocol.events import Delta, Entry, Event, Snapshot
from inference.protocol.fold import EMPTY, fold

GENERATION = "gen-1"


def entries_of(events: Sequence[Event]) -> list[Entry]:
    """A log."""
    return [Entry(seq, event) for seq, event in enumerate(events)]


def sent(
    wire: Wire, log: Sequence[Entry], *, head: Snapshot | None = None, after: str | None = None
) -> bytes:
    """The stream of `log`, whose entries up to `head` were folded into it, behind event `after`."""
    account = Account(None if after is None else seen_of(after))
    rendering, out = Rendering(wire, [GENERATION], [1]), []
    parts: list[Snapshot | Entry] = [] if head is None else [head]
    for part in [*parts, *(entry for entry in log if head is None or entry.seq > head.seq)]:
        told = account.reset(part) if isinstance(part, Snapshot) else account.feed(part)
        data, is_broken = rendering.batch(Batch(0, part.seq, told), end_error)
        out.append(data)
        if is_broken:
            return b"".join(out)
    return b"".join(out) + (rendering.end(account.skip) if account.is_over else b"")


def seen_of(event_id: str) -> Seen:
    """What a reader of a single answer has behind an event."""
    parsed = EventId.parse(event_id)
    (place,) = parsed.places
    return Seen(place, parsed.skip, parsed.seq, parsed.sub)


def folded(log: Sequence[Entry], seq: int) -> Snapshot:
    """The entries up to `seq` in one."""
    return fold(EMPTY, [entry for entry in log if entry.seq <= seq])


def cuts_of(raw: bytes) -> list[tuple[str, bytes]]:
    """Behind each event of a stream that has an id: the id, and the bytes so far."""
    found, at = [], 0
    for block in raw.split(b"\n\n")[:-1]:
        at += len(block) + 2
        if block.startswith(b"id: "):
            found.append((block[4 : block.index(b"\n")].decode(), raw[:at]))
    return found


def recut(log: Sequence[Entry], is_cut: Callable[[int], bool]) -> list[Entry]:
    """The same answer with other cuts: runs of one part are joined, and parted where `is_cut` of
    the number of a character says so."""
    events: list[Event] = []
    number = 0
    for event in (entry.event for entry in log):
        if not isinstance(event, Delta):
            events.append(event)
            continue
        for piece in _letters(event):
            last = events[-1] if events else None
            number += len(piece.text)
            if isinstance(last, Delta) and _joins(last, piece) and not is_cut(number):
                events[-1] = _joined(last, piece)
            else:
                events.append(piece)
    return entries_of(events)


def _letters(delta: Delta) -> list[Delta]:
    """One a character; its call's end is with the last, all tokens with the first."""
    if len(delta.text) < 2:
        return [delta]
    call = delta.call
    first = replace(delta, text=delta.text[0], call=call and replace(call, end=None))
    rest = [
        Delta(letter, (), kind=delta.kind, call=call and replace(call, id="", name="", end=None))
        for letter in delta.text[1:]
    ]
    rest[-1] = replace(rest[-1], call=call and replace(call, id="", name=""))
    return [first, *rest]


def _joins(one: Delta, other: Delta) -> bool:
    if one.kind != other.kind or (one.call is None) != (other.call is None):
        return False
    if one.call is None or other.call is None:
        return True
    return one.call.index == other.call.index and one.call.end is None


def _joined(one: Delta, other: Delta) -> Delta:
    call = one.call and replace(one.call, end=other.call.end if other.call else None)
    return Delta(
        one.text + other.text,
        one.token_ids + other.token_ids,
        kind=one.kind,
        logprobs=one.logprobs + other.logprobs,
        call=call,
    )


def data_of(raw: bytes) -> list[dict[str, Any]]:
    """The objects of a stream."""
    lines = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines if line != b"[DONE]"]
