"""What a live connection reads from the database, as frames. Synchronous: each function is one hop
into a thread, the making of the frames included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from conversations.edge.live.bounds import CHUNK_BYTES, CHUNK_MESSAGES
from conversations.edge.live.frames import ConversationFrame, FeedFrame
from conversations.edge.mappers import conversation_out, state_out
from conversations.edge.schemas import ConversationOut, ConversationState, MessageOut, TurnOut
from conversations.feed import feed_changes
from conversations.models import OPEN_STATES, Turn
from conversations.selectors import conversation_changes, conversation_snapshot
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

ROW_BYTES = 400  # of a message or turn without its text, about
MAX_PAGES = 4  # of changes; who is further behind begins anew


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """An answer in the making, and the log to follow for it."""

    turn_id: str
    generation_id: str
    model: str


@dataclass(frozen=True, slots=True)
class ConversationRead:
    """Frames that bring a client up to `revision`, and what is being written at that revision."""

    frames: Sequence[ConversationFrame]
    revision: int
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


def conversation_read(user: User, conversation_id: str, since: int | None) -> ConversationRead:
    """All of a conversation, or what changed after revision `since` if that can be told.

    Raises:
        NotFoundError: absent or not this user's.
    """
    states = None if since is None else _pages(user, conversation_id, since)
    is_reset = states is None
    if states is None:
        snapshot = conversation_snapshot(user=user, conversation_id=conversation_id)
        states = [state_out(snapshot)]
    last = states[-1]
    frames = [
        frame
        for index, state in enumerate(states)
        for frame in _chunks(
            state, before=since or 0, is_reset=is_reset, has_more=index < len(states) - 1
        )
    ]
    return ConversationRead(
        frames, last.revision, last.conversation, _open_turns(conversation_id, last.revision)
    )


def _pages(user: User, conversation_id: str, since: int) -> list[ConversationState] | None:
    """Pages of changes; None when the client had better begin anew."""
    pages: list[ConversationState] = []
    while len(pages) < MAX_PAGES:
        try:
            changes = conversation_changes(user=user, conversation_id=conversation_id, since=since)
        except InvalidError:  # a revision that isn't there: of another database, say
            return None
        pages.append(state_out(changes))
        if not changes.has_more:
            return pages
        since = changes.revision
    return None


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
    state: ConversationState, *, before: int, is_reset: bool, has_more: bool
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
            revision=state.revision if is_last and not has_more else before,
            messages=messages,
            turns=mine,
            has_more=has_more or not is_last,
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
