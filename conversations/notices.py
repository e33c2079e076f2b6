"""A word over the channel layer that a list changed. It saves waiting, nothing else: whoever
misses it finds the change in the database within a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer

log = logging.getLogger(__name__)

NOTICE_TIMEOUT_S = 0.5  # for all of one change; the act's answer waits for it
FEED_NOTICE = {"type": "feed.notice"}


def feed_group(user_id: int) -> str:
    """The group that everything which shows this user's list joins."""
    return f"feed-{user_id}"


def feed_notice(user_ids: Collection[int]) -> None:
    """Wake what shows the lists of these users; call it after the commit. Never raises."""
    try:
        async_to_sync(_send)(user_ids)
    except Exception as error:  # Redis away in any of its ways, or a closing event loop
        log.warning("no notice of a changed list: %s", type(error).__name__)


async def _send(user_ids: Collection[int]) -> None:
    layer = get_channel_layer()
    async with asyncio.timeout(NOTICE_TIMEOUT_S):
        await asyncio.gather(
            *(layer.group_send(feed_group(user_id), FEED_NOTICE) for user_id in user_ids)
        )
