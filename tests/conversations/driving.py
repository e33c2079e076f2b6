"""Being an engine, and shorthands for what people do."""

from __future__ import annotations

from typing import Any

from conversations import services
from conversations.models import Message, Turn
from conversations.parts import TextPart
from inference.protocol.events import Delta, Event, Finished, Started, Terminal, Usage
from inference.queues.contract import Append, Beat, BeatReply, Claim, Queue

USAGE = Usage(3, 2, 1)


class Engine:
    """Claims and writes logs as told; one engine of the model "mock"."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.running: dict[str, tuple[Claim, int]] = {}

    def claim(self) -> list[str]:
        """Take all that waits and say that it started."""
        claims = self.queue.claim("mock", "e", slots=99, idle=not self.running)
        for claim in claims:
            self.running[claim.request.generation_id] = (claim, 0)
            self.write(claim.request.generation_id, Started(3, 1))
        return [claim.request.generation_id for claim in claims]

    def write(self, generation_id: str, *events: Event) -> None:
        """Append to the log of a claimed generation."""
        claim, seq = self.running[generation_id]
        append = Append(generation_id, claim.epoch, claim.incarnation, seq, events)
        assert self.queue.append("mock", "e", [append]) == ("ok",)
        self.running[generation_id] = (claim, seq + len(events))

    def end(self, generation_id: str, terminal: Terminal | None = None, text: str = "") -> None:
        """Write some text and the end."""
        if text:
            self.write(generation_id, Delta(text, (1,)))
        self.write(generation_id, terminal or Finished("stop", USAGE))
        del self.running[generation_id]

    def beat(self) -> BeatReply:
        """What a heartbeat is told."""
        running = tuple((gid, claim.epoch) for gid, (claim, _) in self.running.items())
        return self.queue.beat("mock", Beat("e", "ready", running=running))

    def cancelled(self) -> dict[str, str]:
        """What a heartbeat is told to stop."""
        return dict(self.beat().cancelled)

    def answer(self, turn: Turn, text: str = "hello", terminal: Terminal | None = None) -> Turn:
        """Claim, write, end and advance one turn."""
        self.claim()
        self.end(turn.generation_id, terminal, text)
        assert services.turn_advance(turn.generation_id)
        turn.refresh_from_db()
        return turn


def say(user: Any, conversation: Any, text: str = "hi", **values: Any) -> Turn:
    """Start a turn with a text."""
    return services.turn_start(
        user=user, conversation_id=conversation.id, parts=(TextPart(text),), **values
    )


def text(message: Message) -> str:
    """The stored text."""
    message.refresh_from_db()
    return "".join(part["text"] for part in message.parts)


def children(message: Message | None, conversation: Any) -> list[str]:
    """Living children by number."""
    rows = Message.objects.filter(conversation=conversation, parent=message, deleted_at=None)
    return [row.id for row in rows.order_by("number")]
