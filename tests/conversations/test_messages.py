"""Regenerate, edit, delete, and switching between branches: nothing else disappears."""

from __future__ import annotations

from typing import Any

import pytest

from conversations import services
from conversations.models import Conversation, Message, Turn
from conversations.parts import TextPart
from conversations.services.nodes import tree_of
from inference.models import Generation
from inference.protocol.events import Delta
from llamaweb.lib.errors import BusyError, InvalidError
from tests.conversations.driving import Engine, children, say, text

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def ten(alice: Any, chat: Conversation, engine: Engine) -> list[str]:
    """The ids of a chat of ten messages."""
    for number in range(5):
        engine.answer(say(alice, chat, f"question {number}"), f"answer {number}")
    chat.refresh_from_db()
    return list(tree_of(chat).path(chat.current_leaf_id))


def leaf(chat: Conversation) -> str | None:
    chat.refresh_from_db()
    return chat.current_leaf_id


def test_regenerate_makes_a_sibling(alice: Any, chat: Conversation, engine: Engine) -> None:
    first = engine.answer(say(alice, chat), "one")
    second = services.message_regenerate(user=alice, message_id=first.answer_id)
    engine.answer(second, "two")
    assert children(first.user_message, chat) == [first.answer_id, second.answer_id]
    assert (text(first.answer), text(second.answer)) == ("one", "two")
    assert tree_of(chat).position(second.answer_id) == (2, 2)
    assert leaf(chat) == second.answer_id


def test_a_message_without_an_answer_gets_one(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    first = engine.answer(say(alice, chat))
    services.message_delete(user=alice, message_id=first.answer_id)
    again = services.message_regenerate(user=alice, message_id=first.user_message_id)
    assert again.answer.parent_id == first.user_message_id


def test_an_edited_answer_stands_beside_the_old_one(
    alice: Any, chat: Conversation, ten: list[str]
) -> None:
    edit = services.message_edit(user=alice, message_id=ten[1], parts=(TextPart("new"),))
    assert edit.turn is None
    assert children(Message.objects.get(id=ten[0]), chat) == [ten[1], edit.message.id]
    assert leaf(chat) == edit.message.id
    assert (text(edit.message), edit.message.role) == ("new", "assistant")
    # to the old branch, with its whole tail, and back
    services.leaf_select(user=alice, conversation_id=chat.id, message_id=ten[1])
    assert tree_of(chat).path(leaf(chat)) == tuple(ten)
    services.leaf_select(user=alice, conversation_id=chat.id, message_id=edit.message.id)
    assert tree_of(chat).path(leaf(chat)) == (ten[0], edit.message.id)


def test_an_edited_question_is_answered_beside_the_old_one(
    alice: Any, chat: Conversation, ten: list[str], engine: Engine
) -> None:
    edit = services.message_edit(user=alice, message_id=ten[0], parts=(TextPart("new"),))
    assert edit.turn is not None
    engine.answer(edit.turn, "new answer")
    assert children(None, chat) == [ten[0], edit.message.id]
    assert tree_of(chat).path(leaf(chat)) == (edit.message.id, edit.turn.answer_id)
    services.leaf_select(user=alice, conversation_id=chat.id, message_id=ten[-1])
    assert tree_of(chat).path(leaf(chat)) == tuple(ten)
    chat.refresh_from_db()
    assert chat.title == "question 0"


@pytest.mark.parametrize("index", [0, 1, 4, 9])
def test_edited_in_place_what_follows_stays(
    alice: Any, chat: Conversation, ten: list[str], index: int
) -> None:
    generations = Generation.objects.count()
    edit = services.message_edit(
        user=alice, message_id=ten[index], parts=(TextPart("new"),), in_place=True
    )
    assert edit.message.id == ten[index]
    assert text(edit.message) == "new"
    assert edit.message.edited_at is not None
    assert tree_of(chat).path(leaf(chat)) == tuple(ten)
    assert Generation.objects.count() == generations


def test_an_answer_being_written_is_not_edited(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    for in_place in (False, True):
        with pytest.raises(BusyError):
            services.message_edit(
                user=alice, message_id=turn.answer_id, parts=(TextPart("x"),), in_place=in_place
            )
    engine.answer(turn, "mine")
    assert text(turn.answer) == "mine"


def test_an_answer_to_nothing_is_not_regenerated(alice: Any, chat: Conversation) -> None:
    imported = Message.objects.create(
        conversation=chat, number=1, role="assistant", revision=1, created_at=chat.created_at
    )
    with pytest.raises(InvalidError):
        services.message_regenerate(user=alice, message_id=imported.id)


def test_a_branch_is_deleted_with_all_that_is_written_in_it(
    alice: Any, chat: Conversation, ten: list[str], engine: Engine
) -> None:
    one = say(alice, chat, "more", parent_id=ten[3])
    two = services.message_regenerate(user=alice, message_id=ten[9])
    engine.claim()
    engine.write(one.generation_id, Delta("secret", (1,)))
    services.message_delete(user=alice, message_id=ten[2])
    assert set(engine.cancelled()) == {one.generation_id, two.generation_id}
    assert leaf(chat) == ten[1]
    gone = Message.objects.filter(conversation=chat, deleted_at__isnull=False)
    assert gone.count() == 8 + 2 + 1
    assert {tuple(message.parts) for message in gone} == {()}
    assert {message.revision for message in gone} == {chat.revision}
    assert {turn.state for turn in Turn.objects.filter(id__in=[one.id, two.id])} == {"cancelled"}


def test_deleting_the_last_branch_leaves_an_empty_chat(
    alice: Any, chat: Conversation, ten: list[str], engine: Engine
) -> None:
    services.message_delete(user=alice, message_id=ten[0])
    assert leaf(chat) is None
    turn = say(alice, chat, "again")
    assert turn.user_message.parent_id is None
    assert turn.user_message.number == 11


def test_choosing_the_leaf_one_is_on_changes_nothing(
    alice: Any, chat: Conversation, ten: list[str]
) -> None:
    before = chat.revision
    services.leaf_select(user=alice, conversation_id=chat.id, message_id=ten[3])
    chat.refresh_from_db()
    assert chat.revision == before
