"""Owned generations: committed first, queued after, stored once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from inference.models import Generation, ModelConfig, StoredResponse
from inference.protocol.accounts import Account
from inference.protocol.codec import decode_request
from inference.protocol.events import (
    CallRef,
    Cancelled,
    Delta,
    Failed,
    Finished,
    Snapshot,
    Started,
    Terminal,
    Usage,
)
from inference.protocol.requests import GenerateRequest
from inference.queues.contract import Append, Queue
from inference.registry import generations
from llamaweb.accounts.models import ApiKey
from llamaweb.accounts.services import api_key_create, api_key_revoke
from llamaweb.lib.errors import BusyError, InvalidError, NotFoundError
from tests.inference.conftest import owned

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]


def run(queue: Queue, terminal: Terminal, text: str = "hello") -> None:
    """Be an engine for everything that waits."""
    for claim in queue.claim("mock", "e", slots=9, idle=True):
        append = Append(
            claim.request.generation_id,
            claim.epoch,
            claim.incarnation,
            0,
            (Started(3, 1), Delta(text, (1, 2)), terminal),
        )
        assert queue.append("mock", "e", [append]) == ("ok",)


def test_nothing_is_queued_before_the_commit(queue: Queue, alice: Any) -> None:
    request = owned(alice)
    with transaction.atomic():
        generations.generation_create(owner=alice, request=request)
        assert queue.status("mock", request.generation_id) is None
    status = queue.status("mock", request.generation_id)
    assert status is not None
    assert status.state == "queued"


def test_a_rollback_leaves_nothing(queue: Queue, alice: Any) -> None:
    request = owned(alice)
    with transaction.atomic():
        generations.generation_create(owner=alice, request=request)
        transaction.set_rollback(True)
    assert queue.status("mock", request.generation_id) is None
    assert not Generation.objects.filter(id=request.generation_id).exists()


@pytest.mark.parametrize(
    "values", [{"keep": False}, {"on_finish": None}, {"on_finish": "os.system"}]
)
def test_only_requests_that_go_on_alone_are_owned(alice: Any, values: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        generations.generation_create(owner=alice, request=owned(alice, **values))


@pytest.mark.parametrize(
    ("terminal", "state", "reason", "code"),
    [
        (Finished("stop", Usage(3, 2, 1)), "finished", "stop", ""),
        (Finished("length", Usage(3, 2, 1)), "finished", "length", ""),
        (Cancelled("user", Usage(3, 2, 1)), "cancelled", "cancelled", ""),
        (Failed("engine_failed", "no", usage=Usage(3, 2, 1)), "failed", "error", "engine_failed"),
    ],
)
def test_each_end_is_stored_once(
    queue: Queue, alice: Any, terminal: Terminal, state: str, reason: str, code: str
) -> None:
    row = generations.generation_create(owner=alice, request=owned(alice))
    assert not generations.generation_finalise(row.id)
    run(queue, terminal)
    assert [entry.generation_id for _, entry in queue.finished()] == [row.id]
    assert generations.generation_finalise(row.id)
    assert queue.finished() == ()
    row.refresh_from_db()
    assert (row.state, row.finish_reason, row.error_code) == (state, reason, code)
    assert row.parts == [["content", "hello"]]
    assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (3, 2, 1)
    ended_at = row.ended_at
    assert generations.generation_finalise(row.id)  # again: nothing changes
    row.refresh_from_db()
    assert row.ended_at == ended_at


def test_only_one_of_two_writers_stores(queue: Queue, alice: Any) -> None:
    row = generations.generation_create(owner=alice, request=owned(alice))
    run(queue, Finished("stop"))
    snapshot = generations.read_all(queue, "mock", row.id)
    assert snapshot is not None
    assert generations.generation_store(row.id, snapshot)
    assert not generations.generation_store(row.id, snapshot)


def test_the_sweep_stores_what_ended_unseen(queue: Queue, alice: Any) -> None:
    row = generations.generation_create(owner=alice, request=owned(alice))
    run(queue, Finished("stop"))
    assert generations.generation_sweep()["stored"] == 1
    row.refresh_from_db()
    assert row.state == "finished"


def test_the_sweep_submits_what_the_queue_lost_after_a_grace(
    queue: Queue, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(generations, "generation_submit_committed", lambda _request: None)
        row = generations.generation_create(owner=alice, request=owned(alice))
    now = timezone.now()
    generations.generation_sweep(now)
    assert queue.status("mock", row.id) is None
    later = now + timedelta(seconds=generations.MISSING_GRACE_S)
    generations.generation_sweep(later)
    assert queue.status("mock", row.id) is not None
    generations.generation_sweep(later)
    row.refresh_from_db()
    assert row.missing_since is None


@pytest.mark.parametrize("is_queued", [True, False], ids=["running", "lost by the queue"])
def test_the_sweep_ends_the_response_of_a_revoked_key(
    queue: Queue, alice: Any, is_queued: bool
) -> None:
    """The web process that looked after it is gone."""
    ModelConfig.objects.create(name="mock", is_default=True)
    keys = [api_key_create(user=alice, name=name)[0] for name in ("revoked", "good")]
    revoked, good = rows = [response(alice, key) for key in keys]
    for row in rows if is_queued else ():
        request = decode_request(row.request)
        assert isinstance(request, GenerateRequest)
        assert generations.generation_submit_committed(request) is not None
    queue.claim("mock", "e", slots=9, idle=True)
    api_key_revoke(key=keys[0])
    now = timezone.now()
    for seconds in (0.0, generations.MISSING_GRACE_S):
        done = generations.generation_sweep(now + timedelta(seconds=seconds))
    assert done["cancelled"] == (0 if is_queued else 1)  # it is told once
    status = queue.status("mock", good.id)
    assert status is not None
    assert status.cancel_requested is None
    status = queue.status("mock", revoked.id)
    revoked.refresh_from_db()
    if is_queued:
        assert status is not None
        assert status.cancel_requested == "owner"
    else:
        assert status is None
        assert (revoked.state, revoked.finish_reason) == ("cancelled", "cancelled")


def response(owner: Any, key: ApiKey) -> Generation:
    """The row of a response's generation that isn't queued."""
    request = owned(owner, account=Account(owner.pk, key.pk, "responses").text())
    row = generations.generation_record(owner=owner, request=request)
    now = timezone.now()
    StoredResponse.objects.create(
        id=row.id, owner=owner, generation=row, root_id=row.id, created_at=now, used_at=now
    )
    return row


def test_the_sweep_interrupts_what_nobody_knows_past_its_deadline(
    alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "generation_submit_committed", lambda _request: None)
    row = generations.generation_create(owner=alice, request=owned(alice))
    generations.generation_sweep(timezone.now() + timedelta(seconds=120))
    row.refresh_from_db()
    assert (row.state, row.error_code) == ("interrupted", "deadline_exceeded")


def test_a_full_queue_leaves_the_row_to_the_sweep(
    queue: Queue, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: Any, **_kwargs: Any) -> None:
        raise BusyError("full", reason="queue_full", retry_after_s=1)

    with monkeypatch.context() as patch:
        patch.setattr(type(queue), "submit", full)
        row = generations.generation_create(owner=alice, request=owned(alice))
    now = timezone.now()
    generations.generation_sweep(now)
    generations.generation_sweep(now + timedelta(seconds=generations.MISSING_GRACE_S))
    assert queue.status("mock", row.id) is not None


def test_only_the_owner_gets_it(alice: Any, carol: Any) -> None:
    row = generations.generation_create(owner=alice, request=owned(alice))
    assert generations.generation_get(owner=alice, generation_id=row.id) == row
    messages = []
    for owner, generation_id in [(carol, row.id), (carol, "absent")]:
        with pytest.raises(NotFoundError) as caught:
            generations.generation_get(owner=owner, generation_id=generation_id)
        messages.append(caught.value.message)
    assert messages[0] == messages[1]


def test_a_long_log_is_read_whole(queue: Queue, alice: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(generations, "READ_LIMIT", 2)
    row = generations.generation_create(owner=alice, request=owned(alice))
    (claim,) = queue.claim("mock", "e", slots=1, idle=True)
    for seq in range(7):
        append = Append(row.id, claim.epoch, claim.incarnation, seq, (Delta(str(seq), (seq,)),))
        queue.append("mock", "e", [append])
    end = Append(row.id, claim.epoch, claim.incarnation, 7, (Finished("stop"),))
    queue.append("mock", "e", [end])
    generations.generation_finalise(row.id)
    row.refresh_from_db()
    assert row.parts == [["content", "0123456"]]


def test_the_sweep_comes_to_every_row(
    queue: Queue, alice: Any, bob: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.SWEEP_LIMIT = 3
    for _ in range(7):  # alice's backlog waits in the queue, as it should
        generations.generation_create(owner=alice, request=owned(alice))
    with monkeypatch.context() as patch:
        patch.setattr(generations, "generation_submit_committed", lambda _request: None)
        row = generations.generation_create(owner=bob, request=owned(bob))
    now = timezone.now()
    for sweep in range(8):
        generations.generation_sweep(now + timedelta(seconds=5 * sweep))
    assert queue.status("mock", row.id) is not None


def test_an_owner_has_a_bound_of_open_rows(
    alice: Any, bob: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generations, "MAX_OPEN", 2)
    for _ in range(2):
        generations.generation_create(owner=alice, request=owned(alice))
    with pytest.raises(BusyError, match="2 of your answers"):
        generations.generation_create(owner=alice, request=owned(alice))
    generations.generation_create(owner=bob, request=owned(bob))


def test_a_row_that_went_with_its_owner_is_acknowledged(queue: Queue, carol: Any) -> None:
    row = generations.generation_create(owner=carol, request=owned(carol))
    carol.delete()
    run(queue, Finished("stop"))
    assert len(queue.finished()) == 1
    assert not generations.generation_finalise(row.id)
    assert queue.finished() == ()


def test_a_nul_in_an_answer_is_replaced(queue: Queue, alice: Any) -> None:
    row = generations.generation_create(owner=alice, request=owned(alice))
    run(queue, Finished("stop"), text="a\0b")
    assert generations.generation_finalise(row.id)
    row.refresh_from_db()
    assert row.parts == [["content", "a\N{REPLACEMENT CHARACTER}b"]]


def test_a_row_that_cannot_be_swept_hides_no_other(
    queue: Queue, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, row = (
        generations.generation_create(owner=alice, request=owned(alice)) for _ in range(2)
    )
    run(queue, Finished("stop"))
    finalise = generations.generation_finalise

    def failing(generation_id: str) -> bool:
        if generation_id == broken.id:
            raise ValueError("a row nobody foresaw")
        return finalise(generation_id)

    monkeypatch.setattr(generations, "generation_finalise", failing)
    assert generations.generation_sweep()["stored"] == 1
    row.refresh_from_db()
    assert row.state == "finished"


def test_calls_are_stored_each_as_a_run(queue: Queue, alice: Any) -> None:
    row = generations.generation_create(owner=alice, request=owned(alice))
    calls = (CallRef(0, "a", "clock", "complete"), CallRef(1, "b\0", "s\0y", "broken"))
    log = Snapshot(
        5,
        parts=(("content", "I look."), ("tool_call", "{}"), ("tool_call", '{"a": "x\0')),
        calls=calls,
        terminal=Finished("tool_calls"),
    )
    assert generations.generation_store(row.id, log)
    row.refresh_from_db()
    assert row.parts[0] == ["content", "I look."]
    assert [(kind, json.loads(text)) for kind, text in row.parts[1:]] == [
        ("tool_call", {"id": "a", "name": "clock", "arguments": "{}"}),
        (
            "tool_call",
            {"id": "b\ufffd", "name": "s\ufffdy", "arguments": '{"a": "x\ufffd', "broken": True},
        ),
    ]
