"""A person's list as a feed: what changed in it since a revision they know.

Locks: the conversation's row first, then feeds in the order of their users' ids, until the commit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from django.db import connection, transaction

from conversations.contracts import ConversationView
from conversations.models import Conversation, Feed, FeedEntry, Share
from conversations.notices import feed_notice
from conversations.selectors import conversation_page, conversation_views

if TYPE_CHECKING:
    from llamaweb.accounts.models import User

MAX_FEED_CHANGES = 100  # rows in one answer; more of them: begin anew with the first page

# In one statement, so that a feed that isn't there yet is locked in the same order as all others.
_NEXT_REVISIONS = """
    INSERT INTO conversations_feed (user_id, revision, floor) VALUES {rows}
    ON CONFLICT (user_id) DO UPDATE SET revision = conversations_feed.revision + 1
    RETURNING user_id, revision
"""


@dataclass(frozen=True, slots=True)
class FeedChanges:
    """The list up to `revision`. `reset`: `conversations` are its newest ones and `next` the cursor
    of what follows; else they changed and `gone` may not be read any more."""

    revision: int
    reset: bool
    conversations: tuple[ConversationView, ...] = ()
    gone: tuple[str, ...] = ()
    next: str | None = None


def feed_touch(conversation: Conversation, *, also: Iterable[int] = ()) -> None:
    """Give everybody who may read a locked conversation the next revision of their list; `also`:
    ids of users who just lost it. A notice goes out after the commit."""
    shares = Share.objects.filter(conversation_id=conversation.id)
    members = {conversation.owner_id, *shares.values_list("user_id", flat=True), *also}
    revisions = _next_revisions(sorted(members))
    FeedEntry.objects.bulk_create(
        [
            FeedEntry(user_id=user_id, conversation_id=conversation.id, revision=revision)
            for user_id, revision in revisions.items()
        ],
        update_conflicts=True,
        unique_fields=["user", "conversation_id"],
        update_fields=["revision"],
    )
    transaction.on_commit(partial(feed_notice, members))


def _next_revisions(user_ids: Collection[int]) -> Mapping[int, int]:
    rows = ", ".join(["(%s, 1, 0)"] * len(user_ids))
    with connection.cursor() as cursor:
        cursor.execute(_NEXT_REVISIONS.format(rows=rows), list(user_ids))
        return dict(cursor.fetchall())


def feed_forget(conversation: Conversation) -> None:
    """A conversation is about to be removed for good: so are its entries.

    Who learned of its deletion goes on as before; everybody else begins anew.
    """
    entries = FeedEntry.objects.filter(conversation_id=conversation.id)
    known = dict(entries.values_list("user_id", "revision"))
    feeds = Feed.objects.select_for_update().filter(user_id__in=known).order_by("user_id")
    was_readable = conversation.deleted_at is None
    for feed in feeds:
        if was_readable:  # removed with its owner
            feed.revision += 1
            feed.floor = feed.revision
        else:
            feed.floor = max(feed.floor, known[feed.user_id])
        feed.save(update_fields=["revision", "floor"])
    entries.delete()
    if was_readable:
        transaction.on_commit(partial(feed_notice, tuple(known)))


def feed_changes(*, user: User, since: int | None) -> FeedChanges:
    """What changed in the list after revision `since`; everything (`reset`) for None, for a
    revision that is too old or unknown, and when too much changed."""
    row = Feed.objects.filter(user_id=user.pk).values_list("revision", "floor").first()
    revision, floor = row or (0, 0)  # read first: every change up to it is visible below
    if since is None or not floor <= since <= revision:
        return _reset(user, revision)
    if since == revision:
        return FeedChanges(revision, reset=False)
    entries = FeedEntry.objects.filter(user_id=user.pk, revision__gt=since).order_by("revision")
    ids = list(entries.values_list("conversation_id", flat=True)[: MAX_FEED_CHANGES + 1])
    if len(ids) > MAX_FEED_CHANGES:
        return _reset(user, revision)
    views = conversation_views(user=user, ids=ids)
    gone = set(ids) - {view.id for view in views}
    return FeedChanges(revision, False, tuple(views), tuple(id_ for id_ in ids if id_ in gone))


def _reset(user: User, revision: int) -> FeedChanges:
    page = conversation_page(user=user)
    return FeedChanges(revision, True, page.conversations, next=page.next)


def feed_revisions(user_ids: Collection[int]) -> dict[int, int]:
    """The revisions of several lists in one query; 0 for one in which nothing ever was."""
    rows = Feed.objects.filter(user_id__in=user_ids).values_list("user_id", "revision")
    return {**dict.fromkeys(user_ids, 0), **dict(rows)}
