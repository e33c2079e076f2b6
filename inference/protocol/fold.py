"""Folding a log into a snapshot: the same value whatever the cuts between deltas were."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from inference.protocol.events import (
    CallRef,
    Delta,
    DeltaKind,
    Entry,
    Event,
    Progress,
    Result,
    Snapshot,
    Started,
    Terminal,
    TokenLogprobs,
    Unknown,
)

EMPTY = Snapshot(seq=-1)


@dataclass(slots=True)
class Log:
    """A snapshot in growing form: constant time an event.

    `next_seq` is the seq of the next event.
    """

    next_seq: int = 0
    started: Started | None = None
    progress: Progress | None = None
    parts: list[tuple[DeltaKind, list[str]]] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    draws: int = 0
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    result: Result | None = None
    terminal: Terminal | None = None
    calls: list[CallRef] = field(default_factory=list)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Log:
        """The log that `snapshot` stands for."""
        return cls(
            next_seq=snapshot.seq + 1,
            started=snapshot.started,
            progress=snapshot.progress,
            parts=[(kind, [text]) for kind, text in snapshot.parts],
            token_ids=list(snapshot.token_ids),
            draws=snapshot.draws,
            logprobs=list(snapshot.logprobs),
            result=snapshot.result,
            terminal=snapshot.terminal,
            calls=list(snapshot.calls),
        )

    def add(self, event: Event) -> None:
        """Append one event; unknown ones count only by their seq."""
        self.next_seq += 1
        if isinstance(event, Delta):
            self.token_ids.extend(event.token_ids)
            self.logprobs.extend(event.logprobs)
            self.draws += event.draws
            begins_call = self._begins_call(event.call)
            if event.text or begins_call:
                if begins_call or not self.parts or self.parts[-1][0] != event.kind:
                    self.parts.append((event.kind, []))
                self.parts[-1][1].append(event.text)
        elif isinstance(event, Started):
            # A request that goes on after an engine's death keeps its first figures.
            self.started = self.started or event
        elif isinstance(event, Progress):
            self.progress = event
        elif isinstance(event, Result):
            self.result = event
        elif not isinstance(event, Unknown):
            self.terminal = event

    def _begins_call(self, call: CallRef | None) -> bool:
        """Take in what a delta says of its call; whether this is its first."""
        if call is None:
            return False
        if self.calls and self.calls[-1].index == call.index:
            self.calls[-1] = replace(self.calls[-1], end=call.end)
            return False
        self.calls.append(call)
        return True

    def snapshot(self) -> Snapshot:
        """The fold of all events so far."""
        return Snapshot(
            seq=self.next_seq - 1,
            started=self.started,
            progress=self.progress,
            parts=tuple((kind, "".join(texts)) for kind, texts in self.parts),
            token_ids=tuple(self.token_ids),
            draws=self.draws,
            logprobs=tuple(self.logprobs),
            result=self.result,
            terminal=self.terminal,
            calls=tuple(self.calls),
        )


def fold(snapshot: Snapshot, entries: Iterable[Entry]) -> Snapshot:
    """Return `snapshot` with `entries` folded in; entries it covers already are ignored.

    Raises:
        ValueError: a seq is missing between the snapshot and the entries.
    """
    log = Log.of(snapshot)
    for entry in entries:
        if entry.seq < log.next_seq:
            continue
        if entry.seq != log.next_seq:
            raise ValueError(f"seq {entry.seq} after {log.next_seq - 1}")
        log.add(entry.event)
    return log.snapshot()


def text_of(snapshot: Snapshot, kind: DeltaKind = "content") -> str:
    """All text of one kind."""
    return "".join(text for part_kind, text in snapshot.parts if part_kind == kind)


def runs_of(snapshot: Snapshot) -> list[tuple[DeltaKind, str]]:
    """The parts as text alone: a tool call as the JSON object {id, name, arguments}, with "broken"
    where it isn't known to be whole."""
    calls = iter(snapshot.calls)
    runs: list[tuple[DeltaKind, str]] = []
    for kind, text in snapshot.parts:
        call = next(calls, None) if kind == "tool_call" else None
        if call is not None:
            text = call_json(call, text, broken=call.end != "complete")
        runs.append((kind, text))
    return runs


def call_json(call: CallRef, arguments: str, *, broken: bool = False) -> str:
    """A tool call as one line of JSON."""
    told: dict[str, str | bool] = {"id": call.id, "name": call.name, "arguments": arguments}
    if broken:
        told["broken"] = True
    return json.dumps(told, ensure_ascii=False)
