"""What may happen to a turn, and what must be done about it. Pure values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias


class Status(StrEnum):
    """Where a turn stands. `new` and `stopping` are no states of the database: `new` is before
    the row, `stopping` is queued or running with a stop asked for."""

    NEW = "new"
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    WAITING_FOR_USER = "waiting_for_user"
    FINISHED = "finished"
    CANCELLED = "cancelled"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


TERMINAL = frozenset({Status.FINISHED, Status.CANCELLED, Status.FAILED, Status.INTERRUPTED})


class What(StrEnum):
    """Kinds of events. `generation_*` are about the generation of the current round."""

    START = "start"
    STOP = "stop"
    DELETE = "delete"  # the answer is deleted
    TOOLS_ANSWERED = "tools_answered"
    GENERATION_STARTED = "generation_started"
    GENERATION_FINISHED = "generation_finished"
    GENERATION_TOOL_CALLS = "generation_tool_calls"
    GENERATION_CANCELLED = "generation_cancelled"
    GENERATION_FAILED = "generation_failed"
    GENERATION_INTERRUPTED = "generation_interrupted"
    GENERATION_LOST = "generation_lost"  # nobody knows of it any more


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """`generation_id`: the one it is about; the new one for START and TOOLS_ANSWERED; "" for a
    person's STOP and DELETE."""

    what: What
    generation_id: str = ""


AnswerState: TypeAlias = Literal["done", "stopped", "failed", "interrupted"]
CancelReason: TypeAlias = Literal["user", "deleted"]


@dataclass(frozen=True, slots=True)
class CreateGeneration:
    """Commit this generation with the turn; it is queued after the commit."""

    generation_id: str


@dataclass(frozen=True, slots=True)
class CancelGeneration:
    """Ask for the end of this generation, after the commit and until it is known to have ended."""

    generation_id: str
    by: CancelReason


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """Store the answer's parts so far and end it."""

    state: AnswerState


@dataclass(frozen=True, slots=True)
class AskTools:
    """Store the round's tool calls and have them decided and run."""


Command: TypeAlias = CreateGeneration | CancelGeneration | StoreAnswer | AskTools
