"""Every end of a generation reaches the message and the turn, once, whoever brings it."""

from __future__ import annotations

from typing import Any

import pytest

from conversations import services
from conversations.models import Conversation, Turn
from inference.models import Generation, ModelConfig
from inference.protocol.events import Cancelled, Delta, Failed, Finished, Terminal
from inference.queues.contract import Queue
from llamaweb.lib.errors import InvalidError, NotFoundError, UnavailableError
from tests.conversations.driving import USAGE, Engine, say, text

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
FAILED = Failed("engine_failed", "the engine failed", usage=USAGE)


@pytest.mark.parametrize(
    ("terminal", "state", "answer", "code"),
    [
        (Finished("stop", USAGE), "finished", "done", ""),
        (Finished("length", USAGE), "finished", "done", ""),
        (Cancelled("user", USAGE), "cancelled", "stopped", ""),
        (FAILED, "failed", "failed", "engine_failed"),
    ],
)
def test_each_end_is_stored(
    alice: Any,
    chat: Conversation,
    engine: Engine,
    terminal: Terminal,
    state: str,
    answer: str,
    code: str,
) -> None:
    turn = engine.answer(say(alice, chat), "ten tokens", terminal)
    message = turn.answer
    assert text(message) == "ten tokens"
    assert (turn.state, message.state, message.error_code, turn.error_code) == (
        state,
        answer,
        code,
        code,
    )
    assert (message.prompt_tokens, message.completion_tokens, message.cached_tokens) == (3, 2, 1)
    assert turn.ended_at is not None
    assert engine.queue.finished() == ()  # acknowledged
    assert Generation.objects.get(id=turn.generation_id).state == state
    if code:
        assert message.error_message == "the engine failed"


def test_reasoning_and_text_are_parts_of_their_own(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    engine.claim()
    engine.write(turn.generation_id, Delta("hm", (1,), kind="reasoning"), Delta("a\0b", (2,)))
    engine.end(turn.generation_id)
    services.turn_advance(turn.generation_id)
    turn.answer.refresh_from_db()
    assert turn.answer.parts == [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "a\ufffdb"},  # what no database takes
    ]


def test_advancing_again_changes_nothing(alice: Any, chat: Conversation, engine: Engine) -> None:
    turn = say(alice, chat)
    assert not services.turn_advance(turn.generation_id)  # it goes on
    engine.answer(turn)
    revision = Conversation.objects.get().revision
    assert services.turn_advance(turn.generation_id)
    assert Conversation.objects.get().revision == revision
    assert services.turn_advance("gen-nobody")


def test_stop_in_the_queue(alice: Any, chat: Conversation, queue: Queue) -> None:
    turn = say(alice, chat)
    assert services.turn_stop(user=alice, turn_id=turn.id)
    assert queue.load("mock").waiting == 0
    assert services.turn_advance(turn.generation_id)
    turn.refresh_from_db()
    assert (turn.state, text(turn.answer), turn.answer.state) == ("cancelled", "", "stopped")
    assert not turn.cancel_pending


def test_stop_while_it_is_written_keeps_the_text(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    engine.claim()
    engine.write(turn.generation_id, Delta("so far", (1,)))
    assert services.turn_stop(user=alice, turn_id=turn.id)
    assert services.turn_stop(user=alice, turn_id=turn.id)  # the other client does it too
    assert engine.cancelled() == {turn.generation_id: "user"}
    turn.refresh_from_db()
    assert turn.is_open
    engine.end(turn.generation_id, Cancelled("user", USAGE))
    services.turn_advance(turn.generation_id)
    turn.refresh_from_db()
    assert (turn.state, text(turn.answer), turn.answer.state) == ("cancelled", "so far", "stopped")
    assert not services.turn_stop(user=alice, turn_id=turn.id)


def test_reasoning_ends_in_the_queue_and_while_it_goes_on(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    assert services.turn_answer_now(user=alice, turn_id=turn.id)
    engine.claim()
    claim, _ = engine.running[turn.generation_id]
    assert claim.reasoning_ended
    engine.write(turn.generation_id, Delta("hm", (1,), kind="reasoning"))
    assert services.turn_answer_now(user=alice, turn_id=turn.id)
    assert engine.beat().reasoning_ended == (turn.generation_id,)
    engine.end(turn.generation_id)
    assert not services.turn_answer_now(user=alice, turn_id=turn.id)
    services.turn_advance(turn.generation_id)
    assert not services.turn_answer_now(user=alice, turn_id=turn.id)


def test_reasoning_of_another_server_is_its_own(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    ModelConfig.objects.update(engine_class="upstream")
    turn = say(alice, chat)
    assert not services.turn_answer_now(user=alice, turn_id=turn.id)
    engine.claim()
    claim, _ = engine.running[turn.generation_id]
    assert not claim.request.answer.reasoning_control


def test_a_stop_that_comes_too_late_leaves_the_whole_answer(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    engine.claim()
    engine.end(turn.generation_id, None, "whole")
    services.turn_stop(user=alice, turn_id=turn.id)
    services.turn_advance(turn.generation_id)
    turn.refresh_from_db()
    assert (turn.state, text(turn.answer)) == ("finished", "whole")


def test_a_stop_without_redis_is_made_good_by_the_sweep(
    alice: Any, chat: Conversation, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = say(alice, chat)
    engine.claim()

    def down(*_args: Any) -> bool:
        raise UnavailableError("no Redis")

    with monkeypatch.context() as patch:
        patch.setattr(type(engine.queue), "cancel", down)
        assert services.turn_stop(user=alice, turn_id=turn.id)
    assert engine.cancelled() == {}
    assert services.turn_sweep()["cancelled"] == 1
    assert engine.cancelled() == {turn.generation_id: "user"}


def test_retry_answers_beside_what_failed(alice: Any, chat: Conversation, engine: Engine) -> None:
    failed = engine.answer(say(alice, chat), "half", FAILED)
    turn = services.turn_retry(user=alice, turn_id=failed.id)
    assert (turn.attempt, turn.retry_of, turn.user_message) == (2, failed, failed.user_message)
    assert services.turn_retry(user=alice, turn_id=failed.id) == turn  # two clicks, one Retry
    engine.answer(turn, "whole")
    assert text(turn.answer) == "whole"
    assert text(failed.answer) == "half"
    chat.refresh_from_db()
    assert chat.current_leaf_id == turn.answer_id


def test_only_what_was_not_whole_is_retried(alice: Any, chat: Conversation, engine: Engine) -> None:
    turn = say(alice, chat)
    with pytest.raises(InvalidError):
        services.turn_retry(user=alice, turn_id=turn.id)
    engine.answer(turn)
    with pytest.raises(InvalidError):
        services.turn_retry(user=alice, turn_id=turn.id)
    assert Turn.objects.count() == 1


def test_deleted_while_it_is_written_it_stays_deleted(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    engine.claim()
    engine.write(turn.generation_id, Delta("secret", (1,)))
    services.message_delete(user=alice, message_id=turn.answer_id)
    assert engine.cancelled() == {turn.generation_id: "deleted"}
    turn.refresh_from_db()
    assert (turn.state, turn.cancel_pending) == ("cancelled", True)
    engine.end(turn.generation_id, Cancelled("deleted"), " more")
    assert services.turn_advance(turn.generation_id)
    turn.refresh_from_db()
    assert text(turn.answer) == ""
    assert turn.answer.deleted_at is not None
    assert not turn.cancel_pending
    chat.refresh_from_db()
    assert chat.current_leaf_id == turn.user_message_id
    with pytest.raises(NotFoundError):
        services.turn_retry(user=alice, turn_id=turn.id)


def test_a_conversation_deleted_meanwhile_keeps_the_text_for_its_return(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    engine.claim()
    engine.write(turn.generation_id, Delta("so far", (1,)))
    services.conversation_delete(user=alice, conversation_id=chat.id)
    assert engine.cancelled() == {turn.generation_id: "user"}
    engine.end(turn.generation_id, Cancelled("user"))
    services.turn_advance(turn.generation_id)
    services.conversation_restore(user=alice, conversation_id=chat.id)
    assert text(turn.answer) == "so far"
    assert turn.answer.state == "stopped"
