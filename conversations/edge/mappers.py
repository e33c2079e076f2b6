"""The one mapper from what readers get to what goes over the wire; fields have equal names."""

from __future__ import annotations

from conversations.contracts import Changes, ConversationView, MessageView, Snapshot, TurnView
from conversations.edge.schemas import ConversationOut, ConversationState, MessageOut, TurnOut


def conversation_out(view: ConversationView) -> ConversationOut:
    """A row of the list."""
    return ConversationOut.model_validate(view, from_attributes=True)


def message_out(view: MessageView) -> MessageOut:
    """A message with its parts."""
    return MessageOut.model_validate(view, from_attributes=True)


def turn_out(view: TurnView) -> TurnOut:
    """A turn."""
    return TurnOut.model_validate(view, from_attributes=True)


def state_out(state: Snapshot | Changes) -> ConversationState:
    """A whole conversation (its messages by number), or what changed in it (by revision)."""
    messages = state.messages.values() if isinstance(state, Snapshot) else state.messages
    turns = state.turns.values() if isinstance(state, Snapshot) else state.turns
    return ConversationState(
        conversation=conversation_out(state.conversation),
        revision=state.revision,
        messages=[message_out(message) for message in messages],
        turns=[turn_out(turn) for turn in turns],
        has_more=not isinstance(state, Snapshot) and state.has_more,
    )
