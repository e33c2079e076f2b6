"""Reading: the list, a whole conversation, and what changed in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import Exists, OuterRef, Q, QuerySet

from conversations.access import NO_CONVERSATION, access_conversation, conversations_of
from conversations.contracts import Changes, ConversationView, Snapshot
from conversations.cursors import cursor_read, cursor_write
from conversations.mappers import conversation_view, message_view, turn_view
from conversations.models import OPEN_STATES, Conversation, Message, Share, Turn
from conversations.weights import last_within
from llamaweb.lib.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

MAX_LIST = 100  # conversations in one page
PAGE_LEN = 50
MAX_SNAPSHOT = 2_000  # messages in one answer; what holds more is read in pages of changes
MAX_CHANGES = 500  # rows in one page of changes; a single revision is never cut
MAX_STATE_BYTES = 8 * 1024 * 1024  # of messages in one answer, whichever; a revision isn't cut


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the list; `next`: cursor of what follows, None at the end."""

    conversations: tuple[ConversationView, ...]
    next: str | None


def conversation_page(*, user: User, before: str = "", limit: int = PAGE_LEN) -> Page:
    """Own and shared conversations, the newest activity first. `before`: the `next` of the page
    before, "" for the first.

    Raises:
        InvalidError: no cursor of ours, or the limit is out of bounds.
    """
    if not 1 <= limit <= MAX_LIST:
        raise InvalidError(f"limit must be 1 to {MAX_LIST}", param="limit")
    rows = _with_facts(conversations_of(user), user)
    if before:
        at, last_id = cursor_read(before)
        rows = rows.filter(Q(updated_at__lt=at) | Q(updated_at=at, id__lt=last_id))
    found = [_view(row, user) for row in rows.order_by("-updated_at", "-id")[: limit + 1]]
    views = tuple(found[:limit])
    if len(found) <= limit:
        return Page(views, None)
    return Page(views, cursor_write(views[-1].updated_at, views[-1].id))


def conversation_views(*, user: User, ids: Collection[str]) -> list[ConversationView]:
    """Those of `ids` that `user` may read, the newest activity first."""
    rows = _with_facts(conversations_of(user).filter(id__in=ids), user)
    return [_view(row, user) for row in rows.order_by("-updated_at", "-id")]


def conversation_snapshot(*, user: User, conversation_id: str) -> Snapshot:
    """All living messages and their turns.

    Raises:
        NotFoundError: absent or not this user's.
    """
    view = _read(user, conversation_id)  # first: everything up to its revision is visible then
    messages = Message.objects.filter(conversation_id=conversation_id, deleted_at=None)
    turns = _turns(conversation_id).filter(answer__deleted_at=None)
    return Snapshot(
        conversation=view,
        revision=view.revision,
        messages={row.id: message_view(row) for row in messages.order_by("number")},
        turns={row.id: turn_view(row) for row in turns.order_by("created_at", "id")},
    )


def conversation_state(
    *, user: User, conversation_id: str, max_bytes: int | None = None
) -> Snapshot | Changes:
    """All that lives in a conversation, or its first page if that is too much for one answer.
    `max_bytes`: as of `conversation_changes`.

    Raises:
        NotFoundError: absent or not this user's.
    """
    living = Message.objects.filter(conversation_id=conversation_id, deleted_at=None)
    if (
        living.order_by().count() > MAX_SNAPSHOT
        or last_within(living, max_bytes or MAX_STATE_BYTES) is not None
    ):
        return conversation_changes(
            user=user, conversation_id=conversation_id, since=0, max_bytes=max_bytes
        )
    return conversation_snapshot(user=user, conversation_id=conversation_id)


def conversation_changes(
    *,
    user: User,
    conversation_id: str,
    since: int,
    limit: int = MAX_CHANGES,
    max_bytes: int | None = None,
) -> Changes:
    """Rows that changed after revision `since`, oldest revision first, as many as `limit` rows and
    `max_bytes` (MAX_STATE_BYTES) of messages hold; but always one revision.

    Raises:
        InvalidError: a limit out of bounds, or a revision that isn't there yet.
        NotFoundError: absent or not this user's.
    """
    if not 1 <= limit <= MAX_CHANGES:
        raise InvalidError(f"limit must be 1 to {MAX_CHANGES}", param="limit")
    view = _read(user, conversation_id)
    if not 0 <= since <= view.revision:
        raise InvalidError(f"since must be 0 to {view.revision}", param="since")
    messages = Message.objects.filter(conversation_id=conversation_id, revision__gt=since)
    turns = _turns(conversation_id).filter(revision__gt=since)
    upto = _page_end(messages, turns, limit, max_bytes or MAX_STATE_BYTES)
    if upto is not None:
        messages, turns = messages.filter(revision__lte=upto), turns.filter(revision__lte=upto)
    has_more = upto is not None and upto < view.revision
    return Changes(
        conversation=view,
        revision=upto if upto is not None and has_more else view.revision,
        messages=tuple(message_view(row) for row in messages.order_by("revision", "number")),
        turns=tuple(turn_view(row) for row in turns.order_by("revision", "id")),
        has_more=has_more,
    )


def _page_end(
    messages: QuerySet[Message], turns: QuerySet[Turn], limit: int, max_bytes: int
) -> int | None:
    """The revision of the last row of a full page; None if there is only this page."""
    found: list[int] = []
    for rows in (messages, turns):
        found.extend(rows.order_by("revision").values_list("revision", flat=True)[: limit + 1])
    found.sort()
    upto = found[limit - 1] if len(found) > limit else None
    within = last_within(
        messages if upto is None else messages.filter(revision__lte=upto), max_bytes
    )
    return upto if within is None else within


def _turns(conversation_id: str) -> QuerySet[Turn]:
    return Turn.objects.filter(conversation_id=conversation_id).select_related("answer")


def _read(user: User, conversation_id: str) -> ConversationView:
    access_conversation(user, conversation_id)
    row = _with_facts(conversations_of(user).filter(id=conversation_id), user).first()
    if row is None:  # taken away in between
        raise NotFoundError(NO_CONVERSATION)
    return _view(row, user)


def _with_facts(rows: QuerySet[Conversation], user: User) -> QuerySet[Conversation]:
    shares = Share.objects.filter(conversation=OuterRef("pk"), user_id=user.pk, can_write=True)
    running = Turn.objects.filter(conversation=OuterRef("pk"), state__in=OPEN_STATES)
    return rows.annotate(has_write_share=Exists(shares), has_open_turn=Exists(running))


def _view(row: Conversation, user: User) -> ConversationView:
    return conversation_view(
        row,
        user,
        can_write=bool(getattr(row, "has_write_share")),  # noqa: B009  an annotation
        is_running=bool(getattr(row, "has_open_turn")),  # noqa: B009
    )
