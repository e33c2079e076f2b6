"""Rows: conversations, who they are shared with, their messages and turns, and people's lists."""

from __future__ import annotations

from conversations.models.conversation import Conversation, Share
from conversations.models.feed import Feed, FeedEntry
from conversations.models.message import Message
from conversations.models.turn import OPEN_STATES, Turn

__all__ = ["OPEN_STATES", "Conversation", "Feed", "FeedEntry", "Message", "Share", "Turn"]
