"""What a live connection reads from the database, as frames. Synchronous: each function is one hop
into a thread, the making of the frames included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conversations.edge.live.bounds import CHUNK_BYTES, CHUNK_MESSAGES, READ_BYTES
from conversations.edge.live.frames import ConversationFrame, FeedFrame
from conversations.edge.mappers import conversation_out, state_out
from conversations.edge.schemas import ConversationOut, ConversationState, MessageOut, TurnOut
from conversations.feed import feed_changes
from conversations.models import OPEN_STATES, Turn
from conversations.selectors import conversation_changes, conversation_state
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

ROW_BYTES = 400  # of a message or turn without its text, about


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """An answer in the making, and the log to follow for it."""

    turn_id: str
    generation_id: str
    model: str


@dataclass(frozen=True, slots=True)
class ConversationRead:
    """Frames that bring a client up to `revision`, and what is being written at that revision.

    `has_more`: read on from `revision`; until then a client has no more than revision `before`.
    """

    frames: Sequence[ConversationFrame]
    revision: int
    before: int
    has_more: bool
    conversation: ConversationOut
    open_turns: tuple[OpenTurn, ...]


def feed_read(user: User, since: int | None) -> FeedFrame:
    """The list's changes since a revision."""
    changes = feed_changes(user=user, since=since)
    return FeedFrame(
        revision=changes.revision,
        reset=changes.reset,
        conversations=[conversation_out(view) for view in changes.conversations],
        gone=list(changes.gone),
        next=changes.next,
    )


def conversation_read(
    user: User, conversation_id: str, since: int | None, *, before: int | None = None
) -> ConversationRead:
    """All of a conversation, or what changed after revision `since` if that can be told; a page of
    about READ_BYTES of it. `before`: that of the page before, None for the first.

    Raises:
        NotFoundError: absent or not this user's.
        InvalidError: the revision isn't there any more, in between two pages.
    """
    state = None if since is None else _changes(user, conversation_id, since, before)
    is_reset = state is None
    if state is None:
        before = 0
        state = state_out(
            conversation_state(user=user, conversation_id=conversation_id, max_bytes=READ_BYTES)
        )
    elif before is None:
        before = since or 0
    turns = () if state.has_more else _open_turns(conversation_id, state.revision)
    return ConversationRead(
        tuple(_chunks(state, before=before, is_reset=is_reset)),
        state.revision,
        before,
        state.has_more,
        state.conversation,
        turns,
    )


def _changes(
    user: User, conversation_id: str, since: int, before: int | None
) -> ConversationState | None:
    """None when the client must begin anew."""
    try:
        changes = conversation_changes(
            user=user, conversation_id=conversation_id, since=since, max_bytes=READ_BYTES
        )
    except InvalidError:  # a revision that isn't there: of another database, say
        if before is not None:
            raise
        return None
    return state_out(changes)


def _open_turns(conversation_id: str, upto: int) -> tuple[OpenTurn, ...]:
    """Those that the reader knows; newer ones come with the change that brings them."""
    rows = Turn.objects.filter(
        conversation_id=conversation_id,
        state__in=OPEN_STATES,
        revision__lte=upto,
        answer__deleted_at=None,
    )
    found = rows.order_by("id").values_list("id", "generation_id", "answer__model_name")
    return tuple(OpenTurn(*row) for row in found)


def _chunks(
    state: ConversationState, *, before: int, is_reset: bool
) -> Iterator[ConversationFrame]:
    """`state` in frames of bounded size. All but the last say revision `before`: a client that is
    cut off in between asks for all of it again."""
    turns: dict[str, list[TurnOut]] = {}
    for turn in state.turns:
        turns.setdefault(turn.answer_id, []).append(turn)
    groups = _groups(state.messages, turns)
    for index, messages in enumerate(groups):
        is_last = index == len(groups) - 1
        mine = [turn for message in messages for turn in turns.pop(message.id, ())]
        if is_last:
            mine += [turn for rest in turns.values() for turn in rest]
        yield ConversationFrame(
            conversation=state.conversation,
            revision=state.revision if is_last and not state.has_more else before,
            messages=messages,
            turns=mine,
            has_more=state.has_more or not is_last,
            reset=is_reset and index == 0,
        )


def _groups(
    messages: Sequence[MessageOut], turns: Mapping[str, Sequence[TurnOut]]
) -> list[list[MessageOut]]:
    groups: list[list[MessageOut]] = [[]]
    size = 0
    for message in messages:
        weight = ROW_BYTES * (1 + len(turns.get(message.id, ()))) + sum(
            len(part.text) + len(part.arguments) for part in message.parts
        )
        is_full = len(groups[-1]) >= CHUNK_MESSAGES or size + weight > CHUNK_BYTES
        if groups[-1] and is_full:
            groups.append([])
            size = 0
        groups[-1].append(message)
        size += weight
    return groups
