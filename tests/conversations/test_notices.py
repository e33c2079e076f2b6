"""A notice arrives, and its failure is nobody's problem."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

from conversations import notices
from conversations.notices import FEED_NOTICE, feed_group, feed_notice


def test_members_are_woken(redis_server: str) -> None:
    layer = get_channel_layer()
    channels = {user_id: async_to_sync(layer.new_channel)() for user_id in (1, 2, 3)}
    for user_id, channel in channels.items():
        async_to_sync(layer.group_add)(feed_group(user_id), channel)
    feed_notice([1, 2])

    async def heard(channel: str, seconds: float) -> Any:
        try:
            return await asyncio.wait_for(layer.receive(channel), seconds)
        except TimeoutError:
            return None

    assert async_to_sync(heard)(channels[1], 10) == FEED_NOTICE
    assert async_to_sync(heard)(channels[2], 10) == FEED_NOTICE
    assert async_to_sync(heard)(channels[3], 0.1) is None


class Refusing:
    async def group_send(self, _group: str, _message: Any) -> None:
        raise ConnectionError("no Redis")


class Hanging:
    async def group_send(self, _group: str, _message: Any) -> None:
        await asyncio.Event().wait()


@pytest.mark.parametrize("layer", [Refusing(), Hanging(), None])
def test_failure_is_one_line(
    layer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notices, "NOTICE_TIMEOUT_S", 0.05)
    monkeypatch.setattr(notices, "get_channel_layer", lambda: layer)
    with caplog.at_level(logging.WARNING, notices.__name__):
        feed_notice([1, 2])
    assert [record.exc_info for record in caplog.records] == [None]


async def test_a_running_loop_is_no_reason_to_raise() -> None:
    feed_notice([1])
