"""What readers get: plain values, and how changes are applied to what they have. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from conversations.parts import Part


@dataclass(frozen=True, slots=True)
class ConversationView:
    """A conversation without its messages. `can_write`, `is_owner`: of whoever asks."""

    id: str
    title: str
    title_is_custom: bool
    model_name: str
    current_leaf_id: str | None
    revision: int
    created_at: datetime
    updated_at: datetime
    is_owner: bool
    can_write: bool
    is_running: bool


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message; a deleted one holds nothing but its id and place. While `state` is "streaming"
    its text is in the log of its turn's generation."""

    id: str
    parent_id: str | None
    number: int
    revision: int
    role: str
    state: str
    parts: tuple[Part, ...]
    created_at: datetime
    edited_at: datetime | None
    model_name: str = ""
    finish_reason: str = ""
    error_code: str = ""
    error_message: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn. `model_name` and `generation_id` lead to the log that is to be followed."""

    id: str
    user_message_id: str
    answer_id: str
    revision: int
    state: str
    is_stopping: bool
    can_retry: bool
    generation_id: str
    model_name: str
    attempt: int
    error_code: str
    created_at: datetime
    ended_at: datetime | None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that lives in a conversation, complete up to `revision` (single rows may be newer)."""

    conversation: ConversationView
    revision: int
    messages: Mapping[str, MessageView] = field(default_factory=dict)
    turns: Mapping[str, TurnView] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed after the revision that was asked about, complete up to `revision`.

    `has_more`: ask again from there.
    """

    conversation: ConversationView
    revision: int
    messages: tuple[MessageView, ...] = ()
    turns: tuple[TurnView, ...] = ()
    has_more: bool = False


def changes_apply(snapshot: Snapshot, changes: Changes) -> Snapshot:
    """The snapshot after `changes`; a row is never replaced by an older one, so that changes may
    arrive twice or late."""
    messages, turns = dict(snapshot.messages), dict(snapshot.turns)
    for message in changes.messages:
        known = messages.get(message.id)
        if message.is_deleted:
            messages.pop(message.id, None)
        elif known is None or known.revision <= message.revision:
            messages[message.id] = message
    for turn in changes.turns:
        seen = turns.get(turn.id)
        if turn.is_deleted:
            turns.pop(turn.id, None)
        elif seen is None or seen.revision <= turn.revision:
            turns[turn.id] = turn
    is_newer = changes.conversation.revision >= snapshot.conversation.revision
    return Snapshot(
        conversation=changes.conversation if is_newer else snapshot.conversation,
        revision=max(snapshot.revision, changes.revision),
        messages=messages,
        turns=turns,
    )
