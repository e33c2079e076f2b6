"""Folding a log into a snapshot: the same value whatever the cuts between deltas were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from inference.protocol.events import (
    Delta,
    DeltaKind,
    Entry,
    Progress,
    Result,
    Snapshot,
    Started,
    Unknown,
)

EMPTY = Snapshot(seq=-1)


def fold(snapshot: Snapshot, entries: Iterable[Entry]) -> Snapshot:
    """Return `snapshot` with `entries` folded in; entries it covers already are ignored.

    Unknown events count only by their seq.

    Raises:
        ValueError: a seq is missing between the snapshot and the entries.
    """
    parts: list[tuple[DeltaKind, list[str]]] = [(kind, [text]) for kind, text in snapshot.parts]
    token_ids = list(snapshot.token_ids)
    logprobs = list(snapshot.logprobs)
    draws, seq = snapshot.draws, snapshot.seq
    out = snapshot
    for entry in entries:
        if entry.seq <= seq:
            continue
        if entry.seq != seq + 1:
            raise ValueError(f"seq {entry.seq} after {seq}")
        seq = entry.seq
        event = entry.event
        if isinstance(event, Delta):
            token_ids.extend(event.token_ids)
            logprobs.extend(event.logprobs)
            draws += event.draws
            if not event.text:
                continue
            if parts and parts[-1][0] == event.kind:
                parts[-1][1].append(event.text)
            else:
                parts.append((event.kind, [event.text]))
        elif isinstance(event, Started):
            # A request that goes on after an engine's death keeps its first figures.
            out = out if out.started else replace(out, started=event)
        elif isinstance(event, Progress):
            out = replace(out, progress=event)
        elif isinstance(event, Result):
            out = replace(out, result=event)
        elif not isinstance(event, Unknown):
            out = replace(out, terminal=event)
    return replace(
        out,
        seq=seq,
        parts=tuple((kind, "".join(texts)) for kind, texts in parts),
        token_ids=tuple(token_ids),
        logprobs=tuple(logprobs),
        draws=draws,
    )


def text_of(snapshot: Snapshot, kind: DeltaKind = "content") -> str:
    """All text of one kind."""
    return "".join(text for part_kind, text in snapshot.parts if part_kind == kind)
