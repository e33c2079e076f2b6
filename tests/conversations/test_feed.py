"""Everybody's list learns of every change, in order and without a hole."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from conversations import feed, services
from conversations.feed import FeedChanges, feed_changes, feed_revisions
from conversations.models import Conversation, Feed, FeedEntry
from conversations.services.conversations import UNDO_KEEP
from tests.conversations.driving import Engine, say

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
LATER = UNDO_KEEP + timedelta(hours=1)
WAIT_S = 60.0


def ids(changes: FeedChanges) -> list[str]:
    return [view.id for view in changes.conversations]


def grow(user: Any, count: int) -> list[Conversation]:
    return [services.conversation_create(user=user, title=str(n)) for n in range(count)]


def test_nobody_ever_wrote(alice: Any) -> None:
    assert feed_changes(user=alice, since=None) == FeedChanges(0, True)
    assert feed_changes(user=alice, since=0) == FeedChanges(0, False)
    assert feed_changes(user=alice, since=1).reset
    assert feed_revisions([alice.pk]) == {alice.pk: 0}


def test_a_change_is_told_once(alice: Any, chat: Conversation, engine: Engine) -> None:
    start = feed_changes(user=alice, since=None)
    assert (start.reset, ids(start)) == (True, [chat.id])
    assert feed_changes(user=alice, since=start.revision) == FeedChanges(start.revision, False)
    turn = say(alice, chat)
    running = feed_changes(user=alice, since=start.revision)
    assert (ids(running), running.conversations[0].is_running) == ([chat.id], True)
    engine.answer(turn)
    ended = feed_changes(user=alice, since=running.revision)
    assert (ids(ended), ended.conversations[0].is_running) == ([chat.id], False)
    assert feed_revisions([alice.pk]) == {alice.pk: ended.revision}


def test_a_share_appears_and_goes(alice: Any, bob: Any, carol: Any, chat: Conversation) -> None:
    services.share_grant(user=alice, conversation_id=chat.id, to=bob)
    first = feed_changes(user=bob, since=0)
    assert ids(first) == [chat.id]
    assert not first.conversations[0].can_write
    services.share_grant(user=alice, conversation_id=chat.id, to=bob, can_write=True)
    second = feed_changes(user=bob, since=first.revision)
    assert second.conversations[0].can_write
    services.share_revoke(user=alice, conversation_id=chat.id, to=bob)
    assert feed_changes(user=bob, since=second.revision).gone == (chat.id,)
    before = feed_revisions([bob.pk])
    services.conversation_rename(user=alice, conversation_id=chat.id, title="not bob's any more")
    assert feed_revisions([bob.pk, carol.pk]) == {**before, carol.pk: 0}


def test_deleting_and_restoring(alice: Any, bob: Any, chat: Conversation) -> None:
    services.share_grant(user=alice, conversation_id=chat.id, to=bob)
    for person in (alice, bob):
        start = feed_changes(user=person, since=None)
        services.conversation_delete(user=alice, conversation_id=chat.id)
        gone = feed_changes(user=person, since=start.revision)
        assert (ids(gone), gone.gone) == ([], (chat.id,))
        services.conversation_restore(user=alice, conversation_id=chat.id)
        assert ids(feed_changes(user=person, since=gone.revision)) == [chat.id]


def test_a_purge_makes_old_readers_begin_anew(alice: Any, bob: Any, chat: Conversation) -> None:
    services.share_grant(user=alice, conversation_id=chat.id, to=bob)
    old = feed_changes(user=bob, since=None)
    services.conversation_delete(user=alice, conversation_id=chat.id)
    new = feed_changes(user=bob, since=old.revision)
    assert services.conversation_purge(timezone.now() + LATER) == 1
    assert not FeedEntry.objects.exists()
    assert feed_changes(user=bob, since=old.revision) == FeedChanges(new.revision, True)
    assert feed_changes(user=bob, since=new.revision) == FeedChanges(new.revision, False)


def test_an_owner_that_is_removed_takes_the_conversation_along(
    alice: Any, bob: Any, chat: Conversation
) -> None:
    services.share_grant(user=alice, conversation_id=chat.id, to=bob)
    old = feed_changes(user=bob, since=None)
    alice.delete()
    new = feed_changes(user=bob, since=old.revision)
    assert (new.reset, new.conversations) == (True, ())
    assert new.revision > old.revision
    assert not Feed.objects.filter(user_id=alice.pk).exists()
    assert not FeedEntry.objects.exists()


def test_too_much_is_a_new_beginning(
    alice: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "MAX_FEED_CHANGES", 2)
    chats = grow(alice, 3)
    assert not feed_changes(user=alice, since=1).reset
    changes = feed_changes(user=alice, since=0)
    assert changes.reset
    assert ids(changes) == [chat.id for chat in reversed(chats)]


def test_a_rollback_tells_nobody(alice: Any, chat: Conversation) -> None:
    before = feed_changes(user=alice, since=None)
    with transaction.atomic():
        services.conversation_rename(user=alice, conversation_id=chat.id, title="never")
        transaction.set_rollback(True)
    assert feed_changes(user=alice, since=None) == before


def test_a_change_of_a_shared_one_takes_two_more_writes(
    alice: Any, bob: Any, carol: Any, chat: Conversation, django_assert_num_queries: Any
) -> None:
    for person in (bob, carol):
        services.share_grant(user=alice, conversation_id=chat.id, to=person)
    with transaction.atomic():
        locked = Conversation.objects.select_for_update().get(id=chat.id)
        with django_assert_num_queries(3):  # the shares, the feeds, the entries
            feed.feed_touch(locked)


def test_shares_have_bounds(
    alice: Any, bob: Any, carol: Any, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conversations.services import shares
    from llamaweb.lib.errors import ForbiddenError, InvalidError, NotFoundError

    monkeypatch.setattr(shares, "MAX_SHARES", 1)
    with pytest.raises(InvalidError, match="yours"):
        services.share_grant(user=alice, conversation_id=chat.id, to=alice)
    services.share_grant(user=alice, conversation_id=chat.id, to=bob, can_write=True)
    with pytest.raises(InvalidError, match="at most 1"):
        services.share_grant(user=alice, conversation_id=chat.id, to=carol)
    with pytest.raises(ForbiddenError):
        services.share_grant(user=bob, conversation_id=chat.id, to=carol)
    with pytest.raises(ForbiddenError):
        services.share_revoke(user=bob, conversation_id=chat.id, to=bob)
    with pytest.raises(NotFoundError):
        services.share_revoke(user=carol, conversation_id=chat.id, to=bob)


def test_the_same_again_changes_nothing(alice: Any, bob: Any, chat: Conversation) -> None:
    services.share_grant(user=alice, conversation_id=chat.id, to=bob)
    before = feed_revisions([alice.pk, bob.pk])
    services.share_grant(user=alice, conversation_id=chat.id, to=bob)
    services.share_revoke(user=alice, conversation_id=chat.id, to=alice)
    assert feed_revisions([alice.pk, bob.pk]) == before


def together(*jobs: Callable[[], object]) -> None:
    """Run jobs at once, each in a thread with its own connection."""
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], object]) -> None:
        try:
            barrier.wait(WAIT_S)
            job()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for future in [pool.submit(run, job) for job in jobs]:
            future.result(WAIT_S)


def test_writers_of_crosswise_shared_ones_dont_block_each_other(
    alice: Any, bob: Any, engine: Engine
) -> None:
    one, other = services.conversation_create(user=alice), services.conversation_create(user=bob)
    services.share_grant(user=alice, conversation_id=one.id, to=bob, can_write=True)
    services.share_grant(user=bob, conversation_id=other.id, to=alice, can_write=True)
    before = feed_revisions([alice.pk, bob.pk])

    def rename(user: Any, chat: Conversation) -> None:
        for number in range(10):
            services.conversation_rename(
                user=user, conversation_id=chat.id, title=f"{user.username} {number}"
            )

    together(*(lambda u=u, c=c: rename(u, c) for u in (alice, bob) for c in (one, other)))
    after = feed_revisions([alice.pk, bob.pk])
    # A rename to the title it has already is no change, so that a few may be missing.
    told = {user_id: after[user_id] - before[user_id] for user_id in after}
    assert len(set(told.values())) == 1
    assert 20 <= told[alice.pk] <= 40


def test_first_entries_of_many_at_once(alice: Any, bob: Any, carol: Any, engine: Engine) -> None:
    """Feeds that don't exist yet are made in the same order as they are locked."""
    people = [alice, bob, carol]
    chats = [services.conversation_create(user=person) for person in people]
    for chat in chats:
        for person in people:
            if person.pk != chat.owner_id:
                chat.shares.create(user=person, can_write=True)
    Feed.objects.all().delete()
    FeedEntry.objects.all().delete()
    together(
        *(
            lambda p=p, c=c: services.conversation_rename(
                user=p, conversation_id=c.id, title=p.username
            )
            for p, c in zip(people, chats, strict=True)
        )
    )
    assert set(feed_revisions([person.pk for person in people]).values()) == {3}
