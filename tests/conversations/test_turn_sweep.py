"""What died unseen ends visibly; what goes on is left alone."""

from __future__ import annotations

import inspect
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from celery import current_app
from django.conf import settings as django_settings
from django.utils import timezone

from conversations import services
from conversations.models import Conversation
from conversations.turns import reaper
from inference.models import Generation
from inference.protocol.events import Cancelled, Delta
from inference.registry.generations import generation_sweep
from llamaweb.lib.errors import UnavailableError
from tests.conversations.driving import Engine, say, text

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
NOTHING = {"ended": 0, "started": 0, "withdrawn": 0, "cancelled": 0}


def test_what_goes_on_is_left_alone(alice: Any, chat: Conversation, engine: Engine) -> None:
    turn = say(alice, chat)
    assert services.turn_sweep() == NOTHING
    revision = Conversation.objects.get().revision
    later = timezone.now() + reaper.STARTED_AFTER
    assert services.turn_sweep(later) == NOTHING  # it waits still
    engine.claim()
    assert services.turn_sweep(later) == NOTHING | {"started": 1}
    turn.refresh_from_db()
    assert (turn.state, turn.revision) == ("running", revision + 1)
    assert services.turn_sweep(later) == NOTHING
    engine.answer(turn, "whole")
    assert (turn.state, text(turn.answer)) == ("finished", "whole")


def test_an_end_that_another_job_stored_reaches_the_turn(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    engine.claim()
    engine.end(turn.generation_id, None, "whole")
    assert generation_sweep()["stored"] == 1  # acknowledged: turn_advance is never sent
    assert engine.queue.finished() == ()
    assert services.turn_sweep() == NOTHING | {"ended": 1}
    turn.refresh_from_db()
    assert (turn.state, text(turn.answer)) == ("finished", "whole")


def test_an_answer_nobody_could_serve_in_time_can_be_retried(
    alice: Any, chat: Conversation, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_args: Any, **_values: Any) -> None:
        raise UnavailableError("no Redis")

    with monkeypatch.context() as patch:
        patch.setattr(type(engine.queue), "submit", down)
        turn = say(alice, chat)  # accepted all the same
    late = timezone.now() + timedelta(seconds=django_settings.REQUEST_TIMEOUT_S + 1)
    assert generation_sweep(late)["interrupted"] == 1
    assert services.turn_sweep() == NOTHING | {"ended": 1}
    turn.refresh_from_db()
    turn.answer.refresh_from_db()
    assert (turn.state, turn.answer.state) == ("interrupted", "interrupted")
    assert turn.answer.error_code == turn.error_code == "deadline_exceeded"
    assert turn.answer.error_message
    engine.answer(services.turn_retry(user=alice, turn_id=turn.id), "at last")


def test_a_generation_nobody_knows_ends_its_turn(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    Generation.objects.all().delete()
    assert services.turn_sweep() == NOTHING | {"ended": 1}
    turn.refresh_from_db()
    turn.answer.refresh_from_db()
    assert (turn.state, turn.answer.state) == ("interrupted", "interrupted")
    assert turn.answer.error_code == "generation_lost"


def test_a_cancel_is_repeated_until_it_is_known_to_have_worked(
    alice: Any, chat: Conversation, engine: Engine
) -> None:
    turn = say(alice, chat)
    engine.claim()
    services.message_delete(user=alice, message_id=turn.answer_id)
    assert services.turn_sweep()["cancelled"] == 1
    engine.write(turn.generation_id, Delta("more", (1,)))
    engine.end(turn.generation_id, Cancelled("deleted"))
    generation_sweep()
    assert services.turn_sweep() == NOTHING
    turn.refresh_from_db()
    assert not turn.cancel_pending
    assert text(turn.answer) == ""


@pytest.mark.parametrize("error", [UnavailableError, ValueError])
def test_one_turn_that_cannot_be_moved_does_not_stop_the_others(
    alice: Any, engine: Engine, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    turns = [say(alice, services.conversation_create(user=alice)) for _ in range(3)]
    engine.claim()
    for turn in turns:
        engine.end(turn.generation_id)
    generation_sweep()
    real = reaper.turn_advance

    def advance(generation_id: str) -> bool:
        if generation_id == turns[1].generation_id:
            raise error("no")
        return real(generation_id)

    monkeypatch.setattr(reaper, "turn_advance", advance)
    assert services.turn_sweep()["ended"] == 2


def test_every_open_turn_is_looked_at(alice: Any, engine: Engine, settings: Any) -> None:
    turns = [say(alice, services.conversation_create(user=alice)) for _ in range(5)]
    engine.claim()
    engine.end(turns[4].generation_id)
    engine.end(turns[0].generation_id)
    generation_sweep()
    settings.SWEEP_LIMIT = 2  # a page, not a bound of all
    assert services.turn_sweep()["ended"] == 2


def test_the_settings_name_jobs_that_exist() -> None:
    names = [*django_settings.ON_FINISH_TASKS.values()]
    names += [entry["task"] for entry in django_settings.CELERY_BEAT_SCHEDULE.values()]
    for name in names:
        module = import_module(name.rpartition(".")[0])
        assert callable(getattr(module, name.rpartition(".")[2]))
        assert f'name="{name}"' in inspect.getsource(module)


def test_jobs_that_somebody_waits_for_have_a_queue_of_their_own() -> None:
    names = {*django_settings.ON_FINISH_TASKS.values()}
    names |= {entry["task"] for entry in django_settings.CELERY_BEAT_SCHEDULE.values()}
    by_queue: dict[str, set[str]] = {"turns": set(), "work": set()}
    for name in names:
        by_queue[current_app.amqp.router.route({}, name)["queue"].name].add(name.split(".")[-1])
    assert by_queue == {
        "turns": {
            "generation_finalise",
            "generation_sweep",
            "model_download_sweep",
            "turn_advance",
            "turn_sweep",
            "usage_collect",
        },
        "work": {
            "conversation_purge",
            "models_scan",
            "response_purge",
            "session_purge",
            "usage_purge",
        },
    }
