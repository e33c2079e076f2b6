"""Stored responses: kept with their generations, within bounds, for as long as they are used."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from inference.models import Generation, StoredResponse
from inference.protocol.events import Delta, Failed, Finished, Started, Usage
from inference.protocol.requests import ReplyInfo
from inference.queues.contract import Append, Queue
from inference.registry import responses
from inference.registry.generations import generation_finalise, generation_submit_committed
from inference.registry.responses import ResponseRecord
from llamaweb.lib.errors import InvalidError, NotFoundError
from llamaweb.lib.ids import new_id
from tests.inference.conftest import owned

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
DELTAS = (Delta("he", (1,)), Delta("l\0l", (2, 3)), Delta("", (4,)), Delta("o", ()))
END = Finished("stop", Usage(3, 4, 1))


def make(
    owner: Any, previous: ResponseRecord | None = None, items: str = "[]", **values: Any
) -> str:
    """A response whose generation is queued."""
    response_id = new_id("resp_")
    created_at = int(timezone.now().timestamp())
    request = owned(owner, reply=ReplyInfo(response_id, created_at, "mock"), **values)
    responses.response_create(
        user_id=owner.pk,
        response_id=response_id,
        request=request,
        items=items,
        options="{}",
        previous=previous,
    )
    generation_submit_committed(request)
    return response_id


def run(queue: Queue, *events: Any) -> None:
    """Be an engine for everything that waits."""
    for claim in queue.claim("mock", "e", slots=99, idle=True):
        gid = claim.request.generation_id
        append = Append(gid, claim.epoch, claim.incarnation, 0, (Started(3, 1), *events))
        assert queue.append("mock", "e", [append]) == ("ok",)


def ended(
    queue: Queue, owner: Any, previous: ResponseRecord | None = None, items: str = "[]"
) -> ResponseRecord:
    """A response that has been answered."""
    response_id = make(owner, previous, items)
    run(queue, *DELTAS, END)
    return responses.response_get(user_id=owner.pk, response_id=response_id)


def chain_of(owner: Any, record: ResponseRecord, **bounds: Any) -> list[ResponseRecord]:
    """It with all that it goes on from."""
    bounds = {"max_chars": 10**6, **bounds}
    return responses.response_chain(user_id=owner.pk, response_id=record.id, **bounds)


def used_at(*records: ResponseRecord) -> list[Any]:
    """When they were last used."""
    return [StoredResponse.objects.get(id=record.id).used_at for record in records]


def test_an_ended_one_is_told_as_it_was(queue: Queue, alice: Any) -> None:
    record = ended(queue, alice)
    assert record.is_ended
    assert record.is_exact
    deltas = [event for event in record.events if isinstance(event, Delta)]
    assert [(d.text, len(d.token_ids)) for d in deltas] == [("he", 1), ("l\ufffdl", 2), ("o", 1)]
    assert record.events[-1] == END
    row = StoredResponse.objects.get(id=record.id)
    assert row.size > len("hello")


def test_the_row_is_final_before_its_log_is_given_up(queue: Queue, alice: Any) -> None:
    response_id = make(alice)
    row = StoredResponse.objects.get(id=response_id)
    assert not generation_finalise(row.generation_id)
    assert not responses.response_get(user_id=alice.pk, response_id=response_id).is_ended
    run(queue, *DELTAS, END)
    assert generation_finalise(row.generation_id)
    row.refresh_from_db()
    assert row.log is not None
    kept = dict(row.log)
    assert generation_finalise(row.generation_id)  # again: nothing changes
    row.refresh_from_db()
    assert row.log == kept


def test_one_without_a_log_says_what_became_of_it(alice: Any) -> None:
    response_id = make(alice)
    Generation.objects.update(
        state=Generation.State.INTERRUPTED,
        error_code="deadline_exceeded",
        error_message="no engine came back in time",
    )
    record = responses.response_get(user_id=alice.pk, response_id=response_id)
    end = record.events[-1]
    assert isinstance(end, Failed)
    assert (end.code, end.message) == ("deadline_exceeded", "no engine came back in time")


def test_only_its_owner_has_it(queue: Queue, alice: Any, carol: Any) -> None:
    record = ended(queue, alice)
    for act in (responses.response_get, responses.response_delete):
        with pytest.raises(NotFoundError):
            act(user_id=carol.pk, response_id=record.id)
    with pytest.raises(InvalidError):
        chain_of(carol, record)
    type(alice).objects.filter(pk=alice.pk).update(is_active=False)
    with pytest.raises(NotFoundError):
        responses.response_get(user_id=alice.pk, response_id=record.id)


def test_a_chain_is_whole_or_refused(queue: Queue, alice: Any) -> None:
    first = ended(queue, alice)
    second = ended(queue, alice, first)
    other = ended(queue, alice, first)
    third = ended(queue, alice, second)
    chain = chain_of(alice, third)
    assert [record.id for record in chain] == [first.id, second.id, third.id]
    responses.response_delete(user_id=alice.pk, response_id=second.id)
    with pytest.raises(InvalidError, match="deleted"):
        chain_of(alice, third)
    chain = chain_of(alice, other)
    assert [record.id for record in chain] == [first.id, other.id]


def test_a_chain_has_a_bound(queue: Queue, alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "MAX_CHAIN", 3)
    second = ended(queue, alice, ended(queue, alice))
    chain_of(alice, second)
    third = ended(queue, alice, second)
    with pytest.raises(InvalidError, match="3"):
        chain_of(alice, third)


def test_a_chain_of_too_much_is_refused_before_it_is_read(
    queue: Queue, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ended(queue, alice, items='["ä"]')
    second = ended(queue, alice, first, items='["bb"]')
    assert len(chain_of(alice, second, max_chars=11)) == 2
    before = used_at(first, second)
    monkeypatch.delattr(responses, "_records")
    with pytest.raises(InvalidError, match="11 characters of input, at most 10") as caught:
        chain_of(alice, second, max_chars=10)
    assert (caught.value.param, caught.value.bound) == ("previous_response_id", "prompt")
    assert used_at(first, second) == before


def test_what_one_goes_on_from_is_read_as_far_as_it_is_wanted(
    queue: Queue, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ended(queue, alice)
    second = ended(queue, alice, first)
    third = ended(queue, alice, second)
    before = used_at(first, second, third)
    monkeypatch.setattr(responses, "READ_BATCH", 1)
    read: list[str] = []
    mapper = responses._record

    def record(row: StoredResponse, **options: Any) -> ResponseRecord:
        read.append(row.id)
        return mapper(row, **options)

    monkeypatch.setattr(responses, "_record", record)
    walk = responses.response_before(user_id=alice.pk, record=third, newest_first=True)
    assert next(walk).id == second.id
    assert read == [second.id]
    assert [each.id for each in walk] == [first.id]
    walk = responses.response_before(user_id=alice.pk, record=third, newest_first=False)
    assert [each.id for each in walk] == [first.id, second.id]
    assert used_at(first, second, third) == before
    responses.response_delete(user_id=alice.pk, response_id=first.id)
    assert not list(responses.response_before(user_id=alice.pk, record=third, newest_first=True))


def test_of_other_models_than_the_keys_nothing(queue: Queue, alice: Any) -> None:
    first = ended(queue, alice, items="[1]")
    second = ended(queue, alice, first)
    mine: dict[str, Any] = {"user_id": alice.pk, "response_id": second.id}
    for act in (responses.response_get, responses.response_delete):
        with pytest.raises(NotFoundError):
            act(**mine, only={"other"})
    with pytest.raises(InvalidError, match="no such response"):
        chain_of(alice, second, only={"other"})
    assert len(chain_of(alice, second, only={"mock", "other"})) == 2
    Generation.objects.filter(id=first.generation_id).update(model_name="other")
    with pytest.raises(InvalidError, match="deleted"):
        chain_of(alice, second, only={"mock"})
    walk = responses.response_before(
        user_id=alice.pk, record=second, newest_first=True, only={"mock"}
    )
    assert not list(walk)
    chars = {"user_id": alice.pk, "response_ids": [first.id, second.id]}
    assert responses.responses_chars(**chars) == 5
    assert responses.responses_chars(**chars, only={"mock"}) == 2
    assert responses.response_get(**mine, only={"mock"}).id == second.id


def test_the_least_recently_used_make_room(
    queue: Queue, alice: Any, bob: Any, settings: Any
) -> None:
    settings.MAX_RESPONSES = 3
    waits = make(alice)
    queue.claim("mock", "other", slots=1, idle=True)
    theirs = ended(queue, bob)
    one, two = ended(queue, alice), ended(queue, alice)
    chain_of(alice, one)  # is used
    three = ended(queue, alice)
    left = set(StoredResponse.objects.filter(owner=alice).values_list("id", flat=True))
    assert left == {waits, one.id, three.id}
    assert not Generation.objects.filter(id=two.generation_id).exists()
    assert StoredResponse.objects.filter(id=theirs.id).exists()


def test_their_characters_are_bounded(
    queue: Queue, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ended(queue, alice)
    size = StoredResponse.objects.get(id=one.id).size
    monkeypatch.setattr(responses, "MAX_STORED_CHARS", int(size * 2.5))
    two, three = ended(queue, alice), ended(queue, alice)
    left = set(StoredResponse.objects.values_list("id", flat=True))
    assert left == {two.id, three.id}


def test_what_nobody_uses_expires(queue: Queue, alice: Any, settings: Any) -> None:
    old, used = ended(queue, alice), ended(queue, alice)
    waits = make(alice)
    days = timedelta(days=settings.RESPONSE_DAYS, seconds=1)
    StoredResponse.objects.update(used_at=timezone.now() - days)
    chain_of(alice, used)
    assert responses.response_purge() == 1
    left = set(StoredResponse.objects.values_list("id", flat=True))
    assert left == {used.id, waits}
    assert not Generation.objects.filter(id=old.generation_id).exists()
    assert responses.response_purge(timezone.now() + days) == 1
