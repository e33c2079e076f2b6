"""Ends that the queue itself writes, when no engine holds the generation."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from inference.protocol.events import Cancelled, CancelledBy, Failed, Terminal, Usage

DEADLINE = Failed(
    "deadline_exceeded", "the request's deadline passed before it was finished", retryable=True
)
CRASHED = Failed("engine_crashed", "the engine died repeatedly while working on this request")
UNREADABLE = Failed("not_supported", "the request was written by another version of the server")
CANCELLED: dict[CancelledBy, Cancelled] = {by: Cancelled(by) for by in get_args(CancelledBy)}


def named() -> dict[str, Terminal]:
    """By the names that the scripts use."""
    found: dict[str, Terminal] = {"deadline": DEADLINE, "crashed": CRASHED}
    found.update({str(by): event for by, event in CANCELLED.items()})
    return found


def with_usage(terminal: Terminal, usage: Usage) -> Terminal:
    """The same end with `usage`, what was computed before."""
    return replace(terminal, usage=usage)
