"""The one mapper from what readers get to what goes over the wire; fields have equal names."""

from __future__ import annotations

from collections.abc import Container, Sequence

from conversations.contracts import Changes, ConversationView, MessageView, Snapshot, TurnView
from conversations.edge.schemas import (
    ConversationOut,
    ConversationState,
    MessageOut,
    ModelOut,
    TurnOut,
)
from inference.api import ModelChoice, ModelStand


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


def models_out(choices: Sequence[ModelChoice], stands: Sequence[ModelStand]) -> list[ModelOut]:
    """What somebody who may use exactly these, and know of no others, chooses among; the first is
    the default one."""
    visible = {choice.info.name for choice in choices}
    pairs = zip(choices, stands, strict=True)
    return [
        _model_out(choice, stand, visible, is_default=not index)
        for index, (choice, stand) in enumerate(pairs)
    ]


def _model_out(
    choice: ModelChoice, stand: ModelStand, visible: Container[str], *, is_default: bool
) -> ModelOut:
    info = choice.info
    return ModelOut(
        name=info.name,
        is_default=is_default,
        is_ready=stand.state == "loaded",
        state=stand.state,
        reason=stand.reason.told_to(visible),
        load_progress=stand.load_progress,
        max_context=stand.max_context or choice.context_len,
        title=choice.title,
        aliases=list(info.aliases),
        tags=list(info.tags),
        quantization=choice.quantization,
        capabilities=list(choice.capabilities),
    )
