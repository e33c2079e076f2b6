"""A request of a client that is sent again, or twice at once, makes one thing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from django.db import connection

from conversations import services
from conversations.feed import feed_changes
from conversations.models import Conversation, Message, Turn
from conversations.parts import TextPart
from conversations.services import begin
from inference.models import Generation
from llamaweb.lib.errors import InvalidError, LlamawebError, NotFoundError
from tests.conversations.driving import Engine

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
WAIT_S = 60.0
T = TypeVar("T")


def start(user: Any, key: str = "", **values: Any) -> Turn:
    """Ask something without a conversation."""
    return services.turn_start(
        user=user, conversation_id=None, parts=(TextPart("hello"),), client_key=key, **values
    )


def together(job: Callable[[], T], times: int = 6) -> list[T]:
    """Run a job several times at once."""
    barrier = threading.Barrier(times)

    def run() -> T:
        try:
            barrier.wait(WAIT_S)
            return job()
        finally:
            connection.close()

    with ThreadPoolExecutor(times) as pool:
        return [future.result(WAIT_S) for future in [pool.submit(run) for _ in range(times)]]


def counts() -> list[int]:
    return [model.objects.count() for model in (Conversation, Message, Turn, Generation)]


def test_asking_makes_the_conversation(alice: Any, engine: Engine) -> None:
    turn = start(alice, model_name="mock")
    chat = turn.conversation
    assert (chat.owner, chat.title, chat.model_name) == (alice, "hello", "mock")
    assert chat.current_leaf_id == turn.answer_id
    assert [view.id for view in feed_changes(user=alice, since=0).conversations] == [chat.id]


def test_sent_again(alice: Any, bob: Any, engine: Engine) -> None:
    turn = start(alice, "k")
    again = start(alice, "k")
    assert (again.id, again.conversation_id) == (turn.id, turn.conversation_id)
    assert again.conversation.revision == turn.conversation.revision
    assert counts() == [1, 2, 1, 1]
    assert start(bob, "k").conversation_id != turn.conversation_id  # somebody else's key
    assert start(alice, "other").conversation_id != turn.conversation_id


def test_without_a_key_each_is_its_own(alice: Any, engine: Engine) -> None:
    assert start(alice).conversation_id != start(alice).conversation_id


def test_twice_at_once(alice: Any, engine: Engine) -> None:
    turns = together(lambda: start(alice, "k"))
    assert len({turn.id for turn in turns}) == 1
    assert counts() == [1, 2, 1, 1]
    chats = together(lambda: services.conversation_create(user=alice, client_key="chat"))
    assert len({chat.id for chat in chats}) == 1
    assert Conversation.objects.count() == 2


def test_what_is_refused_leaves_nothing_and_can_be_sent_again(alice: Any, engine: Engine) -> None:
    refusals: list[tuple[dict[str, Any], type[LlamawebError]]] = [
        ({"parent_id": "nobody"}, NotFoundError),
        ({"model_name": "nobody"}, NotFoundError),
        ({"key": "k" * 65}, InvalidError),
    ]
    for values, error in refusals:
        with pytest.raises(error):
            start(alice, **{"key": "k", **values})
        assert counts() == [0, 0, 0, 0]
    assert start(alice, "k").client_key == "k"


def test_what_was_deleted_meanwhile_stays_deleted(alice: Any, engine: Engine) -> None:
    turn = start(alice, "k")
    services.conversation_delete(user=alice, conversation_id=turn.conversation_id)
    with pytest.raises(NotFoundError):
        start(alice, "k")
    with pytest.raises(NotFoundError):
        services.conversation_create(user=alice, client_key="k")
    assert Conversation.objects.count() == 1


def test_an_account_that_is_off_makes_nothing(alice: Any, engine: Engine) -> None:
    alice.is_active = False
    alice.save()
    for make in (lambda: start(alice), lambda: services.conversation_create(user=alice)):
        with pytest.raises(NotFoundError):
            make()
    assert counts() == [0, 0, 0, 0]


def test_an_edited_answer_that_is_sent_again_stands_there_once(alice: Any, engine: Engine) -> None:
    turn = engine.answer(start(alice), "old")

    def edit(text: str, key: str) -> Message:
        return services.message_edit(
            user=alice, message_id=turn.answer_id, parts=(TextPart(text),), client_key=key
        ).message

    first = edit("new", "e1")
    again = [edit("new", "e1"), *together(lambda: edit("new", "e1"))]
    assert {message.id for message in again} == {first.id}
    answers = Message.objects.filter(parent_id=turn.user_message_id)
    assert [message.id for message in answers.order_by("number")] == [turn.answer_id, first.id]
    assert edit("newer", "e2").id != first.id
    assert answers.count() == 3


def test_an_owner_has_a_bound_that_a_repeated_request_doesnt_meet(
    alice: Any, bob: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(begin, "MAX_CONVERSATIONS", 2)
    first = start(alice, "key")
    services.conversation_create(user=alice)
    with pytest.raises(InvalidError, match="you have 2 conversations"):
        services.conversation_create(user=alice)
    with pytest.raises(InvalidError, match="delete some"):
        start(alice, "other")
    assert start(alice, "key").id == first.id
    assert Conversation.objects.filter(owner=alice).count() == 2
    services.conversation_create(user=bob)
