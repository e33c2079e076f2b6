"""One answer's tail: its frames in the order of their cursors, whatever is said in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from conversations.edge.live import tail
from conversations.edge.live.bounds import CHUNK_BYTES
from conversations.edge.live.frames import StreamFrame
from conversations.edge.live.reasons import Reasons
from conversations.edge.live.stream import StreamFold, cursor_parse
from inference.api import Cursor, Read
from inference.protocol.events import Delta, Entry, Started
from inference.protocol.fold import EMPTY, fold

TEXT = "é" * (2 * CHUNK_BYTES)
WAIT_S = 10.0


class _Loading:
    async def reason(self, _model: str) -> str:
        return "the model is loading"


async def test_nothing_claims_text_that_waits_for_a_slow_client(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshot = fold(EMPTY, (Entry(0, Started(3, 1)), Entry(1, Delta(TEXT, (1,)))))

    async def events(*_args: Any, **_options: Any) -> AsyncIterator[Read]:
        yield Read(Cursor(4, 1), (), snapshot)
        await asyncio.Event().wait()

    monkeypatch.setattr(tail.api, "generation_events", events)
    monkeypatch.setattr(tail, "SILENCE_S", 0.0)
    sent: list[StreamFrame] = []
    waits, room = asyncio.Event(), asyncio.Event()

    async def send(frame: StreamFrame) -> None:
        if frame.deltas and sent:
            waits.set()
            await room.wait()
        sent.append(frame)

    def claimed() -> bool:
        text = "".join(part for frame in sent for _, part in frame.deltas)
        return cursor_parse(sent[-1].cursor) is None or text == TEXT

    following = tail.Tail(StreamFold("c", "t", "g"), "g", "m", send=send, failed=pytest.fail)
    reasons = cast("Reasons", _Loading())
    try:
        async with asyncio.timeout(WAIT_S):
            await waits.wait()
            await following.say_why(reasons)
            assert claimed()
            room.set()
            while cursor_parse(sent[-1].cursor) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert claimed()
        await following.say_why(reasons)  # when all is sent, it may be said
        assert sent[-1].place is not None
        assert sent[-1].place.reason == "the model is loading"
    finally:
        await following.close()
