"""Revisions: in order, without a hole, whoever writes at the same time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection, transaction

from conversations import selectors, services
from conversations.changes import conversation_bump
from conversations.contracts import changes_apply
from conversations.models import Conversation, Message, Share, Turn
from conversations.parts import TextPart
from llamaweb.lib.errors import InvalidError
from tests.conversations.driving import Engine, say

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
JOIN_S = 60.0


def test_a_revision_is_taken_under_the_lock_only(chat: Conversation) -> None:
    with pytest.raises(RuntimeError, match="transaction"):
        conversation_bump(chat)
    with transaction.atomic():
        Conversation.objects.filter(id=chat.id).update(revision=7)
        with pytest.raises(RuntimeError, match="without its lock"):
            conversation_bump(chat)


def test_nothing_new_is_nothing(alice: Any, chat: Conversation) -> None:
    changes = selectors.conversation_changes(user=alice, conversation_id=chat.id, since=1)
    assert (changes.messages, changes.turns, changes.revision) == ((), (), 1)
    assert not changes.has_more
    for since in (-1, 2):
        with pytest.raises(InvalidError, match="since"):
            selectors.conversation_changes(user=alice, conversation_id=chat.id, since=since)


def test_what_was_deleted_is_said(alice: Any, chat: Conversation, engine: Engine) -> None:
    turn = engine.answer(say(alice, chat, "secret"), "secret")
    old = selectors.conversation_snapshot(user=alice, conversation_id=chat.id)
    services.message_delete(user=alice, message_id=turn.user_message_id)
    changes = selectors.conversation_changes(
        user=alice, conversation_id=chat.id, since=old.revision
    )
    assert [(view.is_deleted, view.parts) for view in changes.messages] == [(True, ())] * 2
    now = changes_apply(old, changes)
    assert now == selectors.conversation_snapshot(user=alice, conversation_id=chat.id)
    assert now.messages == {}


def test_changes_may_come_twice_and_late(alice: Any, chat: Conversation, engine: Engine) -> None:
    empty = selectors.conversation_snapshot(user=alice, conversation_id=chat.id)
    turn = say(alice, chat)
    early = selectors.conversation_changes(user=alice, conversation_id=chat.id, since=1)
    engine.answer(turn)
    late = selectors.conversation_changes(user=alice, conversation_id=chat.id, since=1)
    fresh = selectors.conversation_snapshot(user=alice, conversation_id=chat.id)
    for order in ([late, early], [early, late, early], [late, late]):
        seen = empty
        for changes in order:
            seen = changes_apply(seen, changes)
        assert seen == fresh


def test_pages_end_between_revisions(alice: Any, chat: Conversation, engine: Engine) -> None:
    for number in range(4):
        engine.answer(say(alice, chat, str(number)))
    seen = selectors.conversation_snapshot(user=alice, conversation_id=chat.id)
    services.message_edit(
        user=alice,
        message_id=chat.messages.order_by("number")[0].id,
        parts=(TextPart("x"),),
        in_place=True,
    )
    services.message_delete(user=alice, message_id=chat.messages.order_by("number")[2].id)
    pages = 0
    while True:
        changes = selectors.conversation_changes(
            user=alice, conversation_id=chat.id, since=seen.revision, limit=1
        )
        seen = changes_apply(seen, changes)
        pages += 1
        if not changes.has_more:
            break
    assert pages == 2  # the delete is one revision of nine rows
    assert seen == selectors.conversation_snapshot(user=alice, conversation_id=chat.id)


def test_writers_at_the_same_time_leave_no_hole(
    alice: Any, bob: Any, chat: Conversation, engine: Engine
) -> None:
    Share.objects.create(conversation=chat, user=bob, can_write=True)
    turn = engine.answer(say(alice, chat, "0"), "0")
    ids = [turn.user_message_id, turn.answer_id]
    seen = selectors.conversation_snapshot(user=alice, conversation_id=chat.id)
    errors: list[BaseException] = []

    def write(who: Any, message_id: str) -> None:
        try:
            for number in range(10):
                services.message_edit(
                    user=who, message_id=message_id, parts=(TextPart(str(number)),), in_place=True
                )
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=write, args=args)
        for args in [(alice, ids[0]), (bob, ids[1]), (bob, ids[0])]
    ]
    for thread in threads:
        thread.start()
    revision, told = seen.revision, set()
    while any(thread.is_alive() for thread in threads):
        changes = selectors.conversation_changes(
            user=alice, conversation_id=chat.id, since=seen.revision
        )
        assert changes.revision >= revision
        told.update(view.revision for view in changes.messages)
        # Complete up to its revision: whatever is older now was visible then.
        rows = Message.objects.filter(conversation=chat, revision__lte=changes.revision)
        assert set(rows.values_list("revision", flat=True)) <= told | {
            view.revision for view in seen.messages.values()
        }
        revision, seen = changes.revision, changes_apply(seen, changes)
    for thread in threads:
        thread.join(JOIN_S)
    assert not errors
    assert Conversation.objects.get().revision == 1 + 1 + 1 + 30
    changes = selectors.conversation_changes(
        user=alice, conversation_id=chat.id, since=seen.revision
    )
    assert changes_apply(seen, changes) == selectors.conversation_snapshot(
        user=alice, conversation_id=chat.id
    )


@pytest.mark.parametrize("client_keys", [("k", "k"), ("", "")])
def test_two_starts_at_once(
    alice: Any, chat: Conversation, engine: Engine, client_keys: tuple[str, str]
) -> None:
    barrier = threading.Barrier(2)
    outcomes: list[Any] = []

    def start(key: str) -> None:
        try:
            barrier.wait(JOIN_S)
            outcomes.append(say(alice, chat, client_key=key).id)
        except Exception as error:
            outcomes.append(type(error).__name__)
        finally:
            connection.close()

    threads = [threading.Thread(target=start, args=(key,)) for key in client_keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_S)
    (turn,) = Turn.objects.all()
    if client_keys[0]:
        assert outcomes == [turn.id, turn.id]
    else:  # the second one would follow an answer that is being written
        assert sorted(outcomes) == sorted([turn.id, "BusyError"])
