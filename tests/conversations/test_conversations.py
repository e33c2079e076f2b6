"""Making, naming, listing, deleting, restoring and removing conversations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from conversations import selectors, services
from conversations.models import Conversation, Message, Turn
from conversations.services.conversations import UNDO_KEEP
from conversations.titles import TITLE_CHARS, title_from
from inference.queues.contract import Beat, CachePurge
from llamaweb.lib.errors import InvalidError, NotFoundError
from tests.conversations.driving import Engine, say

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]


@pytest.mark.parametrize("title", ["", "  ", "\x00\u202e", "x" * 201])
def test_a_title_has_bounds(alice: Any, chat: Conversation, title: str) -> None:
    with pytest.raises(InvalidError, match="1 to 200"):
        services.conversation_rename(user=alice, conversation_id=chat.id, title=title)


def test_a_name_is_one_clean_line(alice: Any, chat: Conversation) -> None:
    title = "a\tb\n\u202ec\x00 <script> =HYPERLINK(1) 😺"
    services.conversation_rename(user=alice, conversation_id=chat.id, title=title)
    chat.refresh_from_db()
    assert chat.title == "a b c <script> =HYPERLINK(1) 😺"
    revision = chat.revision
    services.conversation_rename(user=alice, conversation_id=chat.id, title=title)
    chat.refresh_from_db()
    assert chat.revision == revision  # the same again is no change


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("", ""),
        ("\n\x00\n b  c \nd", "b c"),
        ("word " * 40, ("word " * 15).strip() + "…"),
        ("x" * 500, "x" * (TITLE_CHARS - 1) + "…"),
        ("x" * TITLE_CHARS, "x" * TITLE_CHARS),
    ],
)
def test_a_message_makes_a_title(text: str, title: str) -> None:
    assert title_from(text) == title
    assert len(title) <= TITLE_CHARS


def test_an_unknown_model_is_refused(alice: Any, engine: Engine) -> None:
    with pytest.raises(NotFoundError):
        services.conversation_create(user=alice, model_name="nobody")
    assert services.conversation_create(user=alice, model_name="mock").model_name == "mock"


def test_the_list_is_by_activity_in_pages(alice: Any, engine: Engine) -> None:
    chats = [services.conversation_create(user=alice, title=str(n)) for n in range(5)]
    engine.answer(say(alice, chats[1]))
    say(alice, chats[3])
    services.conversation_rename(user=alice, conversation_id=chats[0].id, title="renamed")
    first = selectors.conversation_page(user=alice, limit=3)
    assert [view.title for view in first.conversations] == ["3", "1", "4"]
    assert [view.is_running for view in first.conversations] == [True, False, False]
    assert first.next is not None
    rest = selectors.conversation_page(user=alice, before=first.next)
    assert [view.title for view in rest.conversations] == ["2", "renamed"]
    assert rest.next is None
    with pytest.raises(InvalidError, match="limit"):
        selectors.conversation_page(user=alice, limit=101)


def test_the_list_takes_one_query(
    alice: Any, engine: Engine, django_assert_num_queries: Any
) -> None:
    for number in range(5):
        services.conversation_create(user=alice, title=str(number))
    with django_assert_num_queries(1):
        assert len(selectors.conversation_page(user=alice).conversations) == 5


def test_deleted_and_restored_it_is_as_before(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    engine.answer(say(alice, chat), "kept")
    before = selectors.conversation_snapshot(user=alice, conversation_id=chat.id)
    services.conversation_delete(user=alice, conversation_id=chat.id)
    assert selectors.conversation_page(user=alice).conversations == ()
    services.conversation_restore(user=alice, conversation_id=chat.id)
    after = selectors.conversation_snapshot(user=alice, conversation_id=chat.id)
    assert (after.messages, after.turns) == (before.messages, before.turns)
    assert after.revision == before.revision + 2
    with pytest.raises(NotFoundError):
        services.conversation_restore(user=alice, conversation_id=chat.id)


def test_what_was_deleted_long_ago_is_removed(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    kept = services.conversation_create(user=alice, title="kept")
    engine.answer(say(alice, chat))
    turn = say(alice, chat)
    services.conversation_delete(user=alice, conversation_id=chat.id)
    later = timezone.now() + UNDO_KEEP + timedelta(seconds=1)
    assert services.conversation_purge() == 0
    assert services.conversation_purge(later) == 0  # its answer hasn't ended yet
    assert services.turn_advance(turn.generation_id)
    assert services.conversation_purge(later) == 1
    assert list(Conversation.objects.all()) == [kept]
    assert not Message.objects.exists()
    assert not Turn.objects.exists()
    assert services.turn_advance(turn.generation_id)


def test_a_deletion_has_engines_forget_what_they_hold_of_it(
    alice: Any,
    chat: Conversation,
    engine: Engine,
    django_capture_on_commit_callbacks: Any,
) -> None:
    say(alice, chat)
    mark = engine.queue.beat("mock", Beat("e", "ready")).mark
    with django_capture_on_commit_callbacks(execute=True):
        services.conversation_delete(user=alice, conversation_id=chat.id)
    heard = engine.queue.beat("mock", Beat("e", "ready", mark=mark)).purges
    assert heard == (CachePurge(conversations=(str(chat.id),)),)
