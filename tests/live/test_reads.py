"""What live connections read, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.sessions.models import Session

from conversations import services
from conversations.edge.live.reads import conversation_read, feed_read
from conversations.edge.live.sign_in import facts_read, sign_in_read
from llamaweb.lib.errors import NotFoundError
from tests.conversations.driving import Engine, say
from tests.live.clients import session_of

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]


def test_facts_and_sign_in(alice: Any, bob: Any, redis_server: str) -> None:
    key = session_of(alice)
    found = sign_in_read(key)
    assert found is not None
    assert found.user == alice
    assert facts_read([key], {alice.pk}).holds(found)
    bob.is_active = False
    bob.save()
    assert set(facts_read([key], {alice.pk, bob.pk}).passwords) == {alice.pk}
    alice.set_password("other")
    alice.save()
    assert not facts_read([key], {alice.pk}).holds(found)
    assert sign_in_read(key) is None


def test_a_session_without_its_row_is_none(alice: Any, redis_server: str) -> None:
    key = session_of(alice)
    Session.objects.all().delete()
    assert sign_in_read(key) is None
    assert sign_in_read("") is None


def test_reading_on_from_a_revision(alice: Any, carol: Any, chat: Any, engine: Engine) -> None:
    first = conversation_read(alice, chat.id, None)
    turn = say(alice, chat)
    read = conversation_read(alice, chat.id, first.revision)
    assert [frame.reset for frame in read.frames] == [False]
    assert len(read.frames[0].messages) == 2
    assert [found.turn_id for found in read.open_turns] == [turn.id]
    nothing = conversation_read(alice, chat.id, read.revision)
    assert nothing.frames[0].messages == []
    assert nothing.open_turns == read.open_turns  # for who comes back
    anew = conversation_read(alice, chat.id, read.revision + 5)  # of another database, say
    assert anew.frames[0].reset
    engine.answer(turn)
    assert conversation_read(alice, chat.id, read.revision).open_turns == ()
    with pytest.raises(NotFoundError):
        conversation_read(carol, chat.id, None)


def test_the_list_on_from_a_revision(alice: Any, bob: Any, chat: Any) -> None:
    before = feed_read(bob, None)
    assert before.reset
    assert [row.id for row in before.conversations] == [chat.id]
    services.conversation_rename(user=alice, conversation_id=chat.id, title="x")
    frame = feed_read(bob, before.revision)
    assert not frame.reset
    assert [row.title for row in frame.conversations] == ["x"]
    services.share_revoke(user=alice, conversation_id=chat.id, to=bob)
    assert feed_read(bob, frame.revision).gone == [chat.id]
