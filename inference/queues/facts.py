"""What the queue must know of a request or an event; the rest is opaque text to it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from inference.protocol.codec import encode_event
from inference.protocol.events import Delta, Event, Snapshot, Started, Usage, is_terminal
from inference.protocol.requests import EngineRequest, GenerateRequest

WaitingLane: TypeAlias = Literal["interactive", "background", "utility"]


def lane_of(request: EngineRequest) -> WaitingLane:
    """Utility requests need no slot and have a lane of their own."""
    return request.lane if isinstance(request, GenerateRequest) else "utility"


def on_finish_of(request: EngineRequest) -> str:
    """Name of the task that stores the result, or ""."""
    return (request.on_finish or "") if isinstance(request, GenerateRequest) else ""


def terminal_text(snapshot: Snapshot) -> str:
    """Its terminal event as it is stored, "" without one."""
    return "" if snapshot.terminal is None else encode_event(snapshot.terminal)


def needs_reader(request: EngineRequest) -> bool:
    """Whether it ends when nobody reads it."""
    return not (isinstance(request, GenerateRequest) and request.keep)


def reply_of(request: EngineRequest) -> tuple[str, bool]:
    """The reply that it is part of, and whether its reasoning may be ended from outside."""
    if not isinstance(request, GenerateRequest):
        return "", False
    return request.reply.reply_id, request.answer.reasoning_control


def describe_event(event: Event) -> tuple[str, int, int]:
    """(kind, count, count) of an event for the append script: what it adds to the usage."""
    if isinstance(event, Delta):
        return "delta", len(event.token_ids), 0
    if isinstance(event, Started):
        return "started", event.prompt_tokens, event.cached_tokens
    return ("terminal" if is_terminal(event) else "other"), 0, 0


def snapshot_usage(snapshot: Snapshot) -> Usage:
    """The usage so far."""
    started = snapshot.started or Started(0, 0)
    return Usage(started.prompt_tokens, len(snapshot.token_ids), started.cached_tokens)
