"""A turn begins in one transaction, is queued after it, and a request sent twice is one turn."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from conversations import services
from conversations.models import Conversation, Message, Share, Turn
from conversations.parts import AttachmentPart, TextPart
from conversations.services import nodes
from inference.models import Generation, ModelConfig
from inference.protocol.codec import decode_request
from inference.protocol.requests import ChatPrompt, GenerateRequest
from inference.queues.contract import Queue
from llamaweb.lib.errors import BusyError, InvalidError, NotFoundError
from tests.conversations.driving import Engine, say, text

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]


def prompt_of(turn: Turn) -> list[tuple[str, str]]:
    request = decode_request(Generation.objects.get(id=turn.generation_id).request)
    assert isinstance(request, GenerateRequest)
    assert isinstance(request.prompt, ChatPrompt)
    return [(message.role, message.content) for message in request.prompt.messages]


def test_everything_is_committed_before_it_is_queued(
    alice: Any, chat: Conversation, queue: Queue
) -> None:
    with transaction.atomic():
        turn = say(alice, chat)
        assert queue.status("mock", turn.generation_id) is None
    assert queue.status("mock", turn.generation_id) is not None
    chat.refresh_from_db()
    assert (turn.state, turn.attempt, turn.answer.state) == ("queued", 1, "streaming")
    assert turn.answer.parent_id == turn.user_message_id
    assert chat.current_leaf_id == turn.answer_id
    assert {chat.revision} == {turn.revision, turn.answer.revision, turn.user_message.revision}


def test_a_rollback_leaves_nothing(alice: Any, chat: Conversation, queue: Queue) -> None:
    with transaction.atomic():
        turn = say(alice, chat)
        transaction.set_rollback(True)
    assert [model.objects.count() for model in (Turn, Message, Generation)] == [0, 0, 0]
    assert queue.status("mock", turn.generation_id) is None


def test_the_request_is_in_the_name_of_who_asks(alice: Any, bob: Any, chat: Conversation) -> None:
    Share.objects.create(conversation=chat, user=bob, can_write=True)
    turn = say(bob, chat)
    row = Generation.objects.get(id=turn.generation_id)
    request = decode_request(row.request)
    assert isinstance(request, GenerateRequest)
    assert (row.owner, turn.started_by) == (bob, bob)
    assert (request.owner_key, request.cache_scope) == (f"user:{bob.pk}", f"user:{bob.pk}")
    assert (request.on_finish, request.keep) == ("turn_advance", True)


def test_the_branch_is_the_prompt(alice: Any, chat: Conversation, engine: Engine) -> None:
    first = engine.answer(say(alice, chat, "one"), "answer one")
    engine.answer(say(alice, chat, "two"), "answer two")
    edited = services.message_edit(
        user=alice, message_id=first.answer_id, parts=(TextPart("edited"),)
    )
    last = say(alice, chat, "three", parent_id=edited.message.id)
    assert prompt_of(last) == [("user", "one"), ("assistant", "edited"), ("user", "three")]


def test_a_chat_gets_what_its_model_begins_with(alice: Any, chat: Conversation) -> None:
    ModelConfig.objects.update(system_prompt="Be brief.", thinking="off")
    turn = say(alice, chat, "one")
    assert prompt_of(turn) == [("system", "Be brief."), ("user", "one")]
    request = decode_request(Generation.objects.get(id=turn.generation_id).request)
    assert isinstance(request, GenerateRequest)
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.template_kwargs_json == '{"enable_thinking": false}'


def test_empty_answers_are_left_out_of_the_prompt(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    engine.answer(say(alice, chat, "one"), "")
    assert prompt_of(say(alice, chat, "two")) == [("user", "one"), ("user", "two")]


def test_the_first_line_makes_the_title_once(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    engine.answer(say(alice, chat, "\n  Hello   <b>there</b>\x07\nmore"))
    say(alice, chat, "Something else")
    chat.refresh_from_db()
    assert (chat.title, chat.title_is_custom) == ("Hello <b>there</b>", False)


def test_a_title_of_ones_own_stays(alice: Any, chat: Conversation) -> None:
    services.conversation_rename(user=alice, conversation_id=chat.id, title=" Mine ")
    say(alice, chat, "Hello")
    chat.refresh_from_db()
    assert (chat.title, chat.title_is_custom) == ("Mine", True)


def test_the_same_request_sent_again_is_the_same_turn(
    alice: Any, bob: Any, chat: Conversation
) -> None:
    turn = say(alice, chat, client_key="k")
    assert say(alice, chat, client_key="k") == turn
    assert Turn.objects.count() == Generation.objects.count() == 1
    Share.objects.create(conversation=chat, user=bob, can_write=True)
    other = services.message_regenerate(
        user=bob, message_id=turn.answer_id, client_key="k"
    )  # somebody else's key
    assert other != turn


def test_nothing_follows_an_answer_that_is_being_written(alice: Any, chat: Conversation) -> None:
    say(alice, chat)
    with pytest.raises(BusyError, match="still being written"):
        say(alice, chat)
    assert Turn.objects.count() == 1


def test_branches_are_written_side_by_side_up_to_a_bound(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    first = say(alice, chat)
    turns = [
        services.message_regenerate(user=alice, message_id=first.answer_id)
        for _ in range(nodes.MAX_OPEN_TURNS - 1)
    ]
    with pytest.raises(BusyError, match=str(nodes.MAX_OPEN_TURNS)):
        services.message_regenerate(user=alice, message_id=first.answer_id)
    for number, turn in enumerate([first, *turns]):
        engine.answer(turn, f"answer {number}")
        assert text(turn.answer) == f"answer {number}"


def test_a_user_has_a_bound_over_all_conversations(
    alice: Any, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "MAX_OPEN_TURNS_PER_USER", 1)
    say(alice, chat)
    with pytest.raises(BusyError, match="of your answers"):
        say(alice, services.conversation_create(user=alice))


def test_a_conversation_is_full_at_its_bound(
    alice: Any, chat: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nodes, "MAX_MESSAGES", 1)
    with pytest.raises(InvalidError, match="at most 1 messages"):
        say(alice, chat)
    assert not Message.objects.exists()


def test_mistakes_change_nothing(alice: Any, chat: Conversation) -> None:
    attachment = AttachmentPart("someone's", "n", "m", 1)
    for values, error in [
        ({"parts": ()}, InvalidError),
        ({"parts": (attachment,)}, InvalidError),
        ({"parts": (TextPart("x"),), "parent_id": "nobody"}, NotFoundError),
        ({"parts": (TextPart("x"),), "model_name": "nobody"}, NotFoundError),
        ({"parts": (TextPart("x"),), "client_key": "k" * 65}, InvalidError),
        ({"parts": (TextPart("x"),), "client_key": "a\0"}, InvalidError),
        ({"parts": (TextPart("x"),), "parent_id": "a\0"}, NotFoundError),
    ]:
        with pytest.raises(error):
            services.turn_start(user=alice, conversation_id=chat.id, **values)  # type: ignore[arg-type]
    before = chat.revision
    chat.refresh_from_db()
    assert (chat.revision, Turn.objects.count(), Message.objects.count()) == (before, 0, 0)
