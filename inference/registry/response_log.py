"""How the stream of a response was cut, so that it can be told again when Redis has forgotten it.

A generation's row has the text of each part. The events of a stream are numbered, and readers come
back with a number: so the cuts between deltas are kept as well, and the same events are made of
them, in the same order. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from inference.protocol.codec import decode_event, encode_event, from_plain, to_plain
from inference.protocol.events import (
    CallRef,
    Delta,
    DeltaKind,
    Entry,
    Event,
    Snapshot,
    Started,
    Terminal,
    TokenLogprobs,
    is_terminal,
)
from inference.protocol.fold import Log

MAX_LOGPROBS: Final = 65_536  # tokens and their rivals; of longer answers none are kept


def cuts_of(entries: Iterable[Entry], before: Snapshot | None = None) -> dict[str, Any]:
    """What is kept of a log from its first event on, JSON-ready: `cuts`, characters and tokens of
    each delta in turn, by part; `logprobs`, those of each delta, if there are any; `end`.

    `before`: the log begins with this snapshot, whose cuts nobody knows: `cuts` is None.
    """
    log = Log() if before is None else Log.of(before)
    cuts: list[list[int]] = []
    logprobs: list[list[TokenLogprobs]] = []
    num_held = 0
    held: list[TokenLogprobs] = []
    for event in (entry.event for entry in entries):
        log.add(event)
        if not isinstance(event, Delta):
            continue
        num_held += len(event.token_ids)
        held += event.logprobs
        if event.text or (event.call is not None and event.call.id):
            while len(cuts) < len(log.parts):
                cuts.append([])
            cuts[-1] += [len(event.text), num_held]
            logprobs.append(held)
            num_held, held = 0, []
        elif event.call is not None:  # the end of a call is shown, though not as text
            num_held = 0
    kept: dict[str, Any] = {"cuts": cuts if before is None else None}
    num_probs = sum(1 + len(item.top) for items in logprobs for item in items)
    if before is None and 0 < num_probs <= MAX_LOGPROBS:
        kept["logprobs"] = [to_plain(tuple(items)) for items in logprobs]
    if log.terminal is not None:
        kept["end"] = encode_event(log.terminal)
    return kept


def is_cut_known(kept: dict[str, Any] | None) -> bool:
    """Whether the events made of `kept` are the ones that were told."""
    return kept is not None and kept.get("cuts") is not None


def events_of(
    parts: Sequence[tuple[str, str]], kept: dict[str, Any] | None, fallback: Terminal
) -> list[Event]:
    """The log again: `parts` as a generation's row has them. Where the cuts aren't known, each part
    is one delta. `fallback`: the end, if none was kept. Of token ids only their number is right."""
    kept = kept or {}
    cuts = kept.get("cuts")
    if cuts is None or len(cuts) != len(parts):
        cuts = [[] for _ in parts]
    told = iter(kept.get("logprobs") or ())
    events: list[Event] = [Started(0, 0)]
    num_calls = 0
    for (kind, text), lengths in zip(parts, cuts, strict=True):
        call: CallRef | None = None
        end: CallRef | None = None
        if kind == "tool_call":
            call, text, end = _call(num_calls, text)
            num_calls += 1
        events += _deltas(kind, text, lengths or [len(text), 0], call, told)
        if end is not None:
            events.append(Delta("", (), kind="tool_call", call=end))
    end_event = decode_event(kept["end"]) if "end" in kept else fallback
    return [*events, end_event if is_terminal(end_event) else fallback]


def _call(index: int, text: str) -> tuple[CallRef, str, CallRef]:
    """How a call begins, its arguments, and how it ends."""
    said = json.loads(text)
    end = CallRef(index, end="broken" if said.get("broken") else "complete")
    return CallRef(index, said["id"], said["name"]), said["arguments"], end


def _deltas(
    kind: str,
    text: str,
    lengths: Sequence[int],
    call: CallRef | None,
    logprobs: Iterator[Any],
) -> Iterator[Event]:
    """`text` in deltas of so many characters and tokens, in turn."""
    at = 0
    for num_chars, num_tokens in zip(lengths[::2], lengths[1::2], strict=True):
        later = None if call is None else CallRef(call.index)
        yield Delta(
            text[at : at + num_chars],
            (0,) * num_tokens,
            kind=_kind(kind),
            logprobs=from_plain(tuple[TokenLogprobs, ...], next(logprobs, [])),
            call=call if at == 0 and call is not None and call.id else later,
        )
        at += num_chars
        if call is not None:
            call = CallRef(call.index)


def _kind(kind: str) -> DeltaKind:
    kinds: dict[str, DeltaKind] = {"reasoning": "reasoning", "tool_call": "tool_call"}
    return kinds.get(kind, "content")
