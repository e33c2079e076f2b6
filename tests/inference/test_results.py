"""What became of a generation, for other apps."""

from __future__ import annotations

from typing import Any

import pytest

from inference import api
from inference.protocol.events import Delta, Failed, Started, Usage
from inference.queues.contract import Append, Queue
from tests.inference.conftest import owned

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
USAGE = Usage(3, 2, 1)


def test_a_result_is_stored_before_it_is_told(queue: Queue, alice: Any) -> None:
    row = api.generation_create(owner=alice, request=owned(alice))
    going_on = api.generation_result(row.id)
    assert going_on is not None
    assert not going_on.is_ended
    (claim,) = queue.claim("mock", "e", slots=1, idle=True)
    events = (
        Started(3, 1),
        Delta("hm", (1,), kind="reasoning"),
        Delta("half", (2,)),
        Failed("engine_failed", "no", usage=USAGE),
    )
    queue.append("mock", "e", [Append(row.id, claim.epoch, claim.incarnation, 0, events)])
    assert not api.generation_results([row.id])[row.id].is_ended  # the row alone
    result = api.generation_result(row.id)
    assert result == api.GenerationResult(
        generation_id=row.id,
        model_name="mock",
        state="failed",
        parts=(("reasoning", "hm"), ("content", "half")),
        finish_reason="error",
        error_code="engine_failed",
        error_message="no",
        usage=USAGE,
    )
    row.refresh_from_db()
    assert row.state == "failed"
    assert queue.finished() == ()
    assert api.generation_result(row.id) == result
    assert api.generation_results([row.id, "absent"]) == {row.id: result}


def test_nobody_knows_an_absent_one() -> None:
    assert api.generation_result("absent") is None
    assert api.generation_status_now("mock", "absent") is None
