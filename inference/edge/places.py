"""How far a reader is in an answer, told so that it holds whatever becomes of the log.

A place counts what an answer is made of, in its order: its beginning, the beginning of each part (a
run of text of one kind, or a tool call), each character, the end of a tool call, the end of all.
Entries may be folded into a snapshot, or be written again with other cuts: the text is the same, so
a place means the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from inference.edge.steps import Begin, Broken, End, Piece, Step
from inference.protocol.events import CallRef, Delta, DeltaKind, Snapshot
from llamaweb.lib.errors import InvalidError

MAX_EVENT_ID_CHARS = 2048
_EVENT_ID_RE = re.compile(
    r"(?P<generation>[A-Za-z0-9_-]{1,64}):(?P<seq>\d{1,9})\.(?P<sub>\d{1,6})"
    r"(?:@(?P<places>\d[\d.,]*))?(?:\+(?P<skip>\d{1,6}))?"
)
_PLACE_RE = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,2}")


@dataclass(frozen=True, slots=True)
class Place:
    """`atoms` of the answer are told, and with them ids and probabilities of so many tokens."""

    atoms: int = 0
    token_ids: int = 0
    logprobs: int = 0

    def __str__(self) -> str:
        """As it stands in an event's id: without zeros at the end."""
        told = f"{self.atoms}.{self.token_ids}.{self.logprobs}"
        return told.removesuffix(".0").removesuffix(".0")


class Counter:
    """The place behind the steps that it was given."""

    def __init__(self) -> None:
        self.place = Place()
        self._kind = ""
        self._call: int | None = None

    def begins_part(self, kind: str, call: CallRef | None) -> bool:
        """Whether text of `kind` comes as a part of its own."""
        return kind != self._kind or (call is not None and call.index != self._call)

    def add(self, step: Step) -> Place:
        """Go behind `step`; returns the place there."""
        here = self.place
        if isinstance(step, Begin | End | Broken):
            self.place = replace(here, atoms=here.atoms + 1)
        elif isinstance(step, Piece):
            atoms = here.atoms + len(step.text) + self.begins_part(step.kind, step.call)
            self._kind = step.kind
            if step.call is not None:
                self._call = step.call.index
                atoms += step.call.end is not None
            ids, logprobs = here.token_ids + len(step.token_ids), here.logprobs + len(step.logprobs)
            self.place = Place(atoms, ids, logprobs)
        return self.place


@dataclass(frozen=True, slots=True)
class EventId:
    """Where a frame stands. `sub` counts the frames of entry `seq` from 0.

    `places`: of all answers to the same prompt, in order, where the stream can be taken up again;
    `skip` frames of what comes behind the place of the frame's own answer are told already.
    """

    generation_id: str
    seq: int
    sub: int
    places: tuple[Place, ...] = ()
    skip: int = 0

    def __str__(self) -> str:
        """`<generation>:<seq>.<sub>`, and behind @ what only a stream to be resumed needs."""
        told = f"{self.generation_id}:{self.seq}.{self.sub}"
        if self.places:
            told += "@" + ",".join(map(str, self.places))
        return f"{told}+{self.skip}" if self.skip else told

    @classmethod
    def parse(cls, text: str) -> EventId:
        """The opposite of `str`.

        Raises:
            InvalidError: it is none.
        """
        found = _EVENT_ID_RE.fullmatch(text) if len(text) <= MAX_EVENT_ID_CHARS else None
        told = found["places"].split(",") if found and found["places"] else []
        if found is None or not all(map(_PLACE_RE.fullmatch, told)):
            raise InvalidError("is no id of an event of this server", param="Last-Event-ID")
        places = tuple(Place(*map(int, place.split("."))) for place in told)
        sub, skip = int(found["sub"]), int(found["skip"] or 0)
        return cls(found["generation"], int(found["seq"]), sub, places, skip)


def head_of(snapshot: Snapshot, place: Place) -> Snapshot:
    """What `snapshot` holds up to `place`, all of it if the place is behind its end."""
    left = place.atoms
    if left <= 0:
        return Snapshot(snapshot.seq)
    left -= snapshot.started is not None
    parts: list[tuple[DeltaKind, str]] = []
    calls: list[CallRef] = []
    for kind, text in snapshot.parts:
        if left <= 0:
            break
        told = text[: left - 1]
        left -= 1 + len(told)
        parts.append((kind, told))
        if kind == "tool_call" and len(calls) < len(snapshot.calls):
            call = snapshot.calls[len(calls)]
            has_ended = call.end is not None and left > 0
            left -= has_ended
            calls.append(call if has_ended else replace(call, end=None))
    return Snapshot(
        snapshot.seq,
        started=snapshot.started,
        parts=tuple(parts),
        token_ids=snapshot.token_ids[: place.token_ids],
        logprobs=snapshot.logprobs[: place.logprobs],
        terminal=snapshot.terminal if left > 0 else None,
        calls=tuple(calls),
    )


def split(delta: Delta, num_atoms: int, num_ids: int, num_logprobs: int) -> tuple[Delta, Delta]:
    """`delta` cut behind so many of its characters (and the end of its call, if that is one more),
    token ids and probabilities."""
    call = delta.call
    head_call = rest_call = None
    if call is not None:
        is_whole = num_atoms >= len(delta.text) + (call.end is not None)
        head_call = call if is_whole else replace(call, end=None)
        rest_call = None if is_whole else CallRef(call.index, end=call.end)
    head = Delta(
        delta.text[:num_atoms],
        delta.token_ids[:num_ids],
        kind=delta.kind,
        logprobs=delta.logprobs[:num_logprobs],
        call=head_call,
        timings=delta.timings,
    )
    rest = Delta(
        delta.text[num_atoms:],
        delta.token_ids[num_ids:],
        kind=delta.kind,
        logprobs=delta.logprobs[num_logprobs:],
        call=rest_call,
        timings=delta.timings,
    )
    return head, rest
