"""Numbering, acknowledging, holding back."""

from __future__ import annotations

import asyncio
import json

import pytest

from conversations.edge.live.bounds import URGENT_BYTES
from conversations.edge.live.frames import PongFrame, StreamFrame
from conversations.edge.live.window import Window
from llamaweb.lib.errors import DeadlineError, InvalidError


class Wire:
    """Keeps what was written."""

    def __init__(self, **options: float) -> None:
        self.frames: list[dict[str, object]] = []
        self.window = Window(self._write, **options)  # type: ignore[arg-type]

    async def _write(self, text: str) -> None:
        await asyncio.sleep(0)
        self.frames.append(json.loads(text))

    async def send(self, size: int = 0, character: str = "x") -> None:
        text = character * size
        frame = StreamFrame(
            conversation_id="c", turn_id="t", generation_id="g", cursor="1:0",
            deltas=[("content", text)],
        )  # fmt: skip
        await self.window.send(frame)


async def test_frames_are_numbered_in_the_order_they_are_written() -> None:
    wire = Wire()
    await asyncio.gather(*(wire.send() for _ in range(20)))
    assert [frame["n"] for frame in wire.frames] == list(range(1, 21))


async def test_a_full_window_waits_for_the_ack_that_makes_room() -> None:
    wire = Wire(window_bytes=1000)
    await wire.send(600)
    await wire.send(600)
    assert wire.window.is_full
    waiting = asyncio.create_task(wire.send(1))
    await asyncio.sleep(0.01)
    assert len(wire.frames) == 2
    wire.window.ack(1)
    async with asyncio.timeout(5):
        await waiting
    assert len(wire.frames) == 3


async def test_urgent_frames_pass_a_full_window_up_to_a_bound() -> None:
    wire = Wire(window_bytes=100)
    await wire.send(200)
    await wire.window.send(PongFrame(), urgent=True)
    assert len(wire.frames) == 2
    while wire.window._unacked_bytes < 100 + URGENT_BYTES:
        await wire.window.send(PongFrame(), urgent=True)
    with pytest.raises(DeadlineError):
        await wire.window.send(PongFrame(), urgent=True)


async def test_a_client_that_acks_nothing_is_too_slow() -> None:
    wire = Wire(window_bytes=100, stall_s=0.05)
    await wire.send(200)
    with pytest.raises(DeadlineError):
        await wire.send()


async def test_an_ack_of_what_was_not_sent_is_refused_and_an_old_one_ignored() -> None:
    wire = Wire()
    await wire.send()
    await wire.send()
    wire.window.ack(2)
    wire.window.ack(1)
    with pytest.raises(InvalidError):
        wire.window.ack(3)


async def test_the_window_counts_bytes() -> None:
    wire = Wire(window_bytes=1000)
    await wire.send(400, "€")  # three bytes each
    assert wire.window.is_full
