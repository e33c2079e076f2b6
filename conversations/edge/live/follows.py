"""The conversations that one connection follows, and the answers being written in them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal

from conversations.edge.live.bounds import MAX_OPEN
from conversations.edge.live.frames import ClosedFrame, ConversationFrame, Numbered, StreamFrame
from conversations.edge.live.instruments import count_refused
from conversations.edge.live.reads import ConversationRead, OpenTurn, conversation_read
from conversations.edge.live.reasons import Reasons
from conversations.edge.live.stream import StreamFold, cursor_parse
from conversations.edge.live.tail import Tail
from conversations.edge.live.threads import LiveThreads
from llamaweb.accounts.models import User
from llamaweb.lib.errors import NotFoundError

Reason = Literal["gone", "asked", "too_many"]
TailKey = tuple[str, str]  # turn, generation


class _Followed:
    """What was sent of a conversation."""

    def __init__(self, revision: int | None, cursors: Mapping[str, str]) -> None:
        self.revision = revision
        self.cursors = dict(cursors)  # the client's; each serves one tail
        self.shown: object = None  # the row of the list that was sent last
        self.tails: dict[TailKey, Tail] = {}


class Follows:
    """Not for several tasks at once, but for `say_why`. `send` waits while the client is slow."""

    def __init__(
        self,
        user: User,
        threads: LiveThreads,
        *,
        send: Callable[[Numbered], Awaitable[None]],
        failed: Callable[[Exception], None],
    ) -> None:
        self._user = user
        self._threads = threads
        self._send = send
        self._failed = failed
        self._followed: dict[str, _Followed] = {}  # the longest followed first

    @property
    def ids(self) -> tuple[str, ...]:
        """The conversations that are followed."""
        return tuple(self._followed)

    async def open(
        self, conversation_id: str, revision: int | None, cursors: Mapping[str, str]
    ) -> None:
        """Follow from what the client has; of a conversation that is followed already also from
        what is still on its way to the client."""
        dropped = await self._drop(conversation_id)
        sent = {tail.generation_id: tail.sent for tail in dropped if tail.sent}
        cursors = {id_: sent.get(id_, cursor) for id_, cursor in cursors.items()}
        while len(self._followed) >= MAX_OPEN:
            count_refused("open_conversations")
            await self.close(next(iter(self._followed)), "too_many")
        self._followed[conversation_id] = _Followed(revision, cursors)
        await self.refresh(conversation_id)

    async def close(self, conversation_id: str, reason: Reason) -> None:
        """Follow no more and say so; nothing when it isn't followed."""
        is_followed = conversation_id in self._followed
        await self._drop(conversation_id)
        if is_followed:
            await self._send(ClosedFrame(conversation_id=conversation_id, reason=reason))

    async def close_all(self) -> None:
        """Stop all tails; nothing is said."""
        for conversation_id in self.ids:
            await self._drop(conversation_id)

    async def refresh(self, conversation_id: str) -> None:
        """Send what changed, end the tails of what ended, begin those of what began."""
        followed = self._followed.get(conversation_id)
        if followed is None:
            return
        try:
            read = await self._read(conversation_id, followed)
        except NotFoundError:
            await self.close(conversation_id, "gone")
            return
        open_turns = {(turn.turn_id, turn.generation_id): turn for turn in read.open_turns}
        await self._stop(followed, followed.tails.keys() - open_turns.keys())
        if followed.revision is None or _is_news(read, followed):
            for frame in read.frames:
                await self._send(frame)
        followed.revision = read.revision
        followed.shown = read.conversation
        for key, turn in open_turns.items():
            if key not in followed.tails:
                cursor = followed.cursors.pop(turn.generation_id, "")
                followed.tails[key] = self._tail(conversation_id, turn, cursor)
        followed.cursors.clear()

    async def _read(self, conversation_id: str, followed: _Followed) -> ConversationRead:
        """The last page of what changed; those before it are sent, one at a time."""
        read = await self._threads.run(
            conversation_read, self._user, conversation_id, followed.revision
        )
        while read.has_more:
            followed.shown = None  # whatever the last page holds, it must be sent
            for frame in read.frames:
                await self._send(frame)
            read = await self._threads.run(
                conversation_read, self._user, conversation_id, read.revision, before=read.before
            )
        return read

    async def say_why(self, reasons: Reasons) -> None:
        """See `Tail.say_why`."""
        for followed in list(self._followed.values()):
            for tail in list(followed.tails.values()):
                await tail.say_why(reasons)

    def _tail(self, conversation_id: str, turn: OpenTurn, cursor: str) -> Tail:
        fold = StreamFold(
            conversation_id,
            turn.turn_id,
            turn.generation_id,
            cursor_parse(cursor) if cursor else None,
        )

        async def send(frame: StreamFrame) -> None:
            await self._send(frame)

        return Tail(fold, turn.generation_id, turn.model, send=send, failed=self._failed)

    async def _drop(self, conversation_id: str) -> list[Tail]:
        """Follow no more; returns the tails that ended."""
        followed = self._followed.pop(conversation_id, None)
        return [] if followed is None else await self._stop(followed, list(followed.tails))

    async def _stop(self, followed: _Followed, keys: Iterable[TailKey]) -> list[Tail]:
        tails = [followed.tails.pop(key) for key in list(keys)]
        await asyncio.gather(*(tail.close() for tail in tails))
        return tails


def _is_news(read: ConversationRead, followed: _Followed) -> bool:
    """Whether anything in the frames isn't known to the client."""
    if read.revision != followed.revision or read.conversation != followed.shown:
        return True
    return any(_has_rows(frame) for frame in read.frames)


def _has_rows(frame: ConversationFrame) -> bool:
    return bool(frame.messages or frame.turns)
