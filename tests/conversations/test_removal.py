"""Users are removed while others change what they share with them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction

from conversations import services
from conversations.access import access_conversation
from conversations.changes import conversation_bump
from conversations.feed import feed_changes
from conversations.models import Conversation, FeedEntry
from llamaweb.accounts.models import User
from llamaweb.accounts.user_services import users_delete
from tests.conversations.driving import Engine, say

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
WAIT_S = 30.0


def _somebody_waits() -> bool:
    if connection.vendor != "postgresql":
        return True  # one writer at a time: nobody can hold half of what they need
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])


def while_held(user: Any, held: Conversation, remove: Callable[[], object]) -> None:
    """`user` holds `held`; the removal begins and waits for it; then `user` changes it."""
    holds = threading.Event()

    def change() -> None:
        try:
            with transaction.atomic():
                row = access_conversation(user, held.id, write=True, lock=True)
                holds.set()
                until_ts = time.monotonic() + WAIT_S
                while not _somebody_waits() and time.monotonic() < until_ts:
                    time.sleep(0.01)
                conversation_bump(row, title="changed")
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        changed = pool.submit(change)
        assert holds.wait(WAIT_S)
        remove()
        changed.result(WAIT_S)


def shared(owner: Any, to: Any) -> list[Conversation]:
    """Two, in the order in which they are removed."""
    made = [services.conversation_create(user=owner) for _ in range(2)]
    for chat in made:
        services.share_grant(user=owner, conversation_id=chat.id, to=to, can_write=True)
    return sorted(made, key=lambda chat: chat.id)


def test_an_owner_leaves_while_a_reader_writes(alice: Any, bob: Any, engine: Engine) -> None:
    chats = shared(alice, bob)
    while_held(bob, chats[1], lambda: users_delete(users=[alice]))
    assert not User.objects.filter(username="alice").exists()
    assert not Conversation.objects.exists()
    assert feed_changes(user=bob, since=None).conversations == ()
    assert not FeedEntry.objects.exists()


def test_owners_leave_together_while_a_reader_writes(
    alice: Any, bob: Any, carol: Any, engine: Engine
) -> None:
    held = [shared(owner, carol)[1] for owner in (alice, bob)][1]
    while_held(carol, held, lambda: users_delete(users=[alice, bob]))
    assert not Conversation.objects.exists()


def test_a_reader_leaves_while_the_owner_writes(alice: Any, bob: Any, engine: Engine) -> None:
    chats = shared(alice, bob)
    own = services.conversation_create(user=bob)
    services.share_grant(user=bob, conversation_id=own.id, to=alice)
    turn = say(bob, chats[1])
    while_held(alice, chats[1], lambda: bob.delete())
    assert {chat.id for chat in Conversation.objects.all()} == {chat.id for chat in chats}
    turn.refresh_from_db()
    assert turn.started_by_id is None
