"""Rows: conversations, who they are shared with, their messages and turns."""

from __future__ import annotations

from conversations.models.conversation import Conversation, Share
from conversations.models.message import Message
from conversations.models.turn import OPEN_STATES, Turn

__all__ = ["OPEN_STATES", "Conversation", "Message", "Share", "Turn"]
