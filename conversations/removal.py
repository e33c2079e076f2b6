"""What the removal of users locks before anything goes: conversations by id, then feeds by user.

It touches many conversations and the feeds of all who read them. Taking them one after another
would hold a feed while waiting for the next conversation, whose writer may wait for that feed.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q

from conversations.models import Conversation, Feed, FeedEntry, Share, Turn


def removal_lock(user_ids: Collection[int]) -> None:
    """Inside the transaction of the removal: hold the conversations of these users, those of
    others that lose a reader or the name of who started a turn, and the feeds that change."""
    read = Share.objects.filter(user_id__in=user_ids).values("conversation_id")
    written = Turn.objects.filter(started_by_id__in=user_ids).values("conversation_id")
    own = Q(owner_id__in=user_ids)
    rows = Conversation.objects.filter(own | Q(id__in=read) | Q(id__in=written)).order_by("id")
    list(rows.select_for_update(of=("self",)).values_list("id", flat=True))
    gone = Conversation.objects.filter(own).values("id")
    told = FeedEntry.objects.filter(conversation_id__in=gone).values("user_id")
    feeds = Feed.objects.filter(Q(user_id__in=told) | Q(user_id__in=user_ids)).order_by("user_id")
    list(feeds.select_for_update().values_list("user_id", flat=True))
