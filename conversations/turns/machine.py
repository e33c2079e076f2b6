"""The rules of a turn: (state, event) → (state, commands). Pure; the table says it all.

1. A turn has at most one generation that isn't known to have ended: the current one.
2. It ends once, in a terminal status; nothing moves it after that, and no command follows.
3. A stop is a wish: the turn ends when its generation does, with what was written by then. An
   answer that was whole before the wish arrived is finished.
4. A deleted answer ends its turn at once; its generation is cancelled and its end is nobody's.
5. Readers that come and go, and processes that restart, are no events: they change nothing.
6. An event about a generation that isn't the current one is illegal; the runner finds turns by
   their current generation, so a late one finds none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from conversations.turns.events import (
    TERMINAL,
    AskTools,
    CancelGeneration,
    Command,
    CreateGeneration,
    Status,
    StoreAnswer,
    TurnEvent,
    What,
)


class IllegalMove(Exception):
    """The table has no such move; nothing was changed."""


@dataclass(frozen=True, slots=True)
class TurnState:
    """`generation_id`: of the current round. `is_generating`: it isn't known to have ended."""

    status: Status = Status.NEW
    generation_id: str = ""
    is_generating: bool = False
    num_rounds: int = 0

    @property
    def is_terminal(self) -> bool:
        """Whether nothing may follow."""
        return self.status in TERMINAL


_GENERATING = (Status.QUEUED, Status.RUNNING)

# (status, event) → (next status, what is done). Names of commands; `_command` fills in the ids.
TABLE: dict[tuple[Status, What], tuple[Status, tuple[str, ...]]] = {
    (Status.NEW, What.START): (Status.QUEUED, ("create",)),
    (Status.QUEUED, What.GENERATION_STARTED): (Status.RUNNING, ()),
    **{(at, What.GENERATION_FINISHED): (Status.FINISHED, ("done",)) for at in _GENERATING},
    **{(at, What.GENERATION_TOOL_CALLS): (Status.WAITING_FOR_USER, ("ask",)) for at in _GENERATING},
    **{(at, What.GENERATION_CANCELLED): (Status.CANCELLED, ("stopped",)) for at in _GENERATING},
    **{(at, What.GENERATION_FAILED): (Status.FAILED, ("failed",)) for at in _GENERATING},
    **{
        (at, What.GENERATION_INTERRUPTED): (Status.INTERRUPTED, ("interrupted",))
        for at in _GENERATING
    },
    **{(at, What.GENERATION_LOST): (Status.INTERRUPTED, ("interrupted",)) for at in _GENERATING},
    **{(at, What.STOP): (Status.STOPPING, ("cancel_user",)) for at in _GENERATING},
    **{(at, What.DELETE): (Status.CANCELLED, ("cancel_deleted",)) for at in _GENERATING},
    (Status.STOPPING, What.STOP): (Status.STOPPING, ("cancel_user",)),
    (Status.STOPPING, What.GENERATION_STARTED): (Status.STOPPING, ()),
    (Status.STOPPING, What.GENERATION_FINISHED): (Status.FINISHED, ("done",)),
    (Status.STOPPING, What.GENERATION_TOOL_CALLS): (Status.CANCELLED, ("stopped",)),
    (Status.STOPPING, What.GENERATION_CANCELLED): (Status.CANCELLED, ("stopped",)),
    (Status.STOPPING, What.GENERATION_FAILED): (Status.FAILED, ("failed",)),
    (Status.STOPPING, What.GENERATION_INTERRUPTED): (Status.CANCELLED, ("stopped",)),
    (Status.STOPPING, What.GENERATION_LOST): (Status.CANCELLED, ("stopped",)),
    (Status.STOPPING, What.DELETE): (Status.CANCELLED, ("cancel_deleted",)),
    (Status.WAITING_FOR_USER, What.TOOLS_ANSWERED): (Status.QUEUED, ("create",)),
    (Status.WAITING_FOR_USER, What.STOP): (Status.CANCELLED, ("stopped",)),
    (Status.WAITING_FOR_USER, What.DELETE): (Status.CANCELLED, ()),
}

_NEW_GENERATION = (What.START, What.TOOLS_ANSWERED)
_BY_PERSON = (What.STOP, What.DELETE)


def decide(state: TurnState, event: TurnEvent) -> tuple[TurnState, tuple[Command, ...]]:
    """The state after `event` and what must be done, in order.

    Raises:
        IllegalMove: the table has no such move, or the event is about another generation.
    """
    row = TABLE.get((state.status, event.what))
    if row is None:
        raise IllegalMove(f"{event.what} while {state.status}")
    status, names = row
    if event.what in _NEW_GENERATION:
        if not event.generation_id or event.generation_id == state.generation_id:
            raise IllegalMove(f"{event.what} needs a new generation")
        after = TurnState(status, event.generation_id, True, state.num_rounds + 1)
    elif event.what in _BY_PERSON:
        after = replace(state, status=status)
    else:
        if event.generation_id != state.generation_id:
            raise IllegalMove(f"{event.what} of another generation")
        goes_on = event.what is What.GENERATION_STARTED
        after = replace(state, status=status, is_generating=goes_on)
    return after, tuple(_command(name, after) for name in names)


def _command(name: str, state: TurnState) -> Command:
    match name:
        case "create":
            return CreateGeneration(state.generation_id)
        case "cancel_user":
            return CancelGeneration(state.generation_id, "user")
        case "cancel_deleted":
            return CancelGeneration(state.generation_id, "deleted")
        case "ask":
            return AskTools()
        case "done" | "stopped" | "failed" | "interrupted":
            return StoreAnswer(name)
    raise ValueError(name)
