"""What can be done: every act is one transaction, checks access first and bumps the revision."""

from __future__ import annotations

from conversations.services.conversations import (
    conversation_create,
    conversation_delete,
    conversation_purge,
    conversation_rename,
    conversation_restore,
    leaf_select,
)
from conversations.services.messages import (
    Edit,
    message_delete,
    message_edit,
    message_regenerate,
)
from conversations.services.shares import share_grant, share_revoke
from conversations.services.turns import turn_answer_now, turn_retry, turn_start, turn_stop
from conversations.turns.reaper import turn_sweep
from conversations.turns.runner import turn_advance

__all__ = [
    "Edit",
    "conversation_create",
    "conversation_delete",
    "conversation_purge",
    "conversation_rename",
    "conversation_restore",
    "leaf_select",
    "message_delete",
    "message_edit",
    "message_regenerate",
    "share_grant",
    "share_revoke",
    "turn_advance",
    "turn_answer_now",
    "turn_retry",
    "turn_start",
    "turn_stop",
    "turn_sweep",
]
