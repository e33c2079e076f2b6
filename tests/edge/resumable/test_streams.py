"""Names of streams: who has them, how many there are, how they are found, replaced and ended."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from inference import api
from inference.api import StreamRecord
from inference.edge.resumable import sizes
from inference.edge.resumable.wish import MAX_STREAM_ID_CHARS
from inference.edge.wire import Wire
from inference.protocol.events import Failed
from llamaweb.lib.errors import UnavailableError
from tests.edge.conftest import CALLER, be
from tests.edge.events import STARTED, answer, delta
from tests.edge.resumable.client import HELLO, NAME, Streams
from tests.edge.resumable.reading import cuts_of
from tests.fakes.kept_logs import KeptLogs

CHAT = "/v1/chat/completions"
STREAM: dict[str, Any] = {"messages": HELLO, "stream": True}


async def begun(kept: KeptLogs, streams: Streams, name: str = NAME) -> str:
    """Start a stream whose client leaves at once; the id of its generation."""
    response = await streams.begin(CHAT, STREAM, **{"X-Conversation-Id": name})
    assert response.status_code == 200
    parts = response.streaming_content.__aiter__()
    await parts.__anext__()
    await parts.aclose()
    return kept.submitted[-1].generation_id


@pytest.fixture
def kept(kept: KeptLogs) -> KeptLogs:
    """Answers that aren't complete yet."""
    kept.says = lambda _request: (STARTED, delta("Hi"))
    return kept


async def test_the_body_can_ask_for_it(kept: KeptLogs, streams: Streams) -> None:
    kept.says = lambda _request: answer("Hi")
    status, raw = await streams.post(CHAT, {**STREAM, "resumable": True}, name="")
    name = streams.headers["X-Conversation-Id"]
    assert (status, name[:7]) == (200, "stream-")
    assert (await streams.take_up(name))[1] == raw
    for wish in (False, None):
        await streams.post(CHAT, {**STREAM, "resumable": wish}, name="")
        assert "X-Conversation-Id" not in streams.headers
    status, refused = await streams.post(CHAT, {**STREAM, "resumable": "yes"}, name="")
    assert (status, json.loads(refused)["error"]["param"]) == (400, "resumable")


async def test_without_a_wish_ids_are_plain_and_nothing_is_kept(
    kept: KeptLogs, streams: Streams
) -> None:
    kept.says = lambda _request: answer("Hi")
    _, raw = await streams.post(CHAT, {**STREAM, "stream_options": {"include_usage": True}}, "")
    generation_id = kept.submitted[0].generation_id
    assert [event_id for event_id, _ in cuts_of(raw)] == [
        f"{generation_id}:{place}" for place in ("0.0", "1.0", "2.0", "2.1")
    ]
    assert not kept.submitted[0].keep
    status, _ = await streams.take_up("", last=f"{generation_id}:1.0")
    assert status == 404


async def test_a_name_that_cant_be_one(kept: KeptLogs, streams: Streams) -> None:
    status, refused = await streams.post(CHAT, STREAM, "x" * (MAX_STREAM_ID_CHARS + 1))
    assert (status, json.loads(refused)["error"]["param"]) == (400, "X-Conversation-Id")
    assert kept.submitted == []


async def test_leaving_ends_nothing_and_delete_ends_it(kept: KeptLogs, streams: Streams) -> None:
    generation_id = await begun(kept, streams)
    assert kept.cancelled == []
    assert await streams.delete(NAME) == 204
    assert kept.cancelled == [(generation_id, "user")]
    assert (await streams.take_up())[0] == 404
    assert await streams.delete(NAME) == 204  # there needn't be one
    assert await streams.delete("") == 204
    assert len(kept.cancelled) == 1


async def test_a_new_stream_of_the_name_ends_the_old_one(kept: KeptLogs, streams: Streams) -> None:
    first = await begun(kept, streams)
    second = await begun(kept, streams)
    assert kept.cancelled == [(first, "user")]
    _, found = await streams.lookup({"conversation_ids": [NAME]})
    assert [each["is_done"] for each in found] == [False]
    kept.says = lambda _request: answer("Hi")
    status, _ = await streams.post(CHAT, {"messages": HELLO})
    assert status == 200
    assert kept.cancelled[1:] == [(second, "user")]
    assert (await streams.take_up())[0] == 404


async def test_a_refused_stream_is_forgotten(kept: KeptLogs, streams: Streams) -> None:
    kept.says = lambda _request: (Failed("not_supported", "no"),)
    assert (await streams.post(CHAT, STREAM))[0] == 501
    assert (await streams.take_up())[0] == 404
    assert kept.books["user:7"] == {}


async def test_nobody_elses(
    kept: KeptLogs, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation_id = await begun(kept, streams)
    be(monkeypatch, replace(CALLER, user_id=8, username="carol"))
    absent = await streams.take_up("there is none")
    assert await streams.take_up() == absent
    assert await streams.take_up("", last=f"{generation_id}:0.0@1") == absent
    assert absent[0] == 404
    assert await streams.lookup({"conversation_ids": ["talk", NAME]}) == (200, [])
    assert await streams.delete(NAME) == 204
    assert kept.cancelled == []


async def test_of_other_models_than_the_keys_nothing(
    kept: KeptLogs, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(kept, streams)
    be(monkeypatch, replace(CALLER, model_names=frozenset({"another"})))
    assert (await streams.take_up())[0] == 404
    be(monkeypatch, replace(CALLER, model_names=frozenset({"another", "tiny"})))
    assert await streams.lookup({"conversation_ids": ["absent"]}) == (200, [])
    _, found = await streams.lookup({"conversation_ids": [NAME]})
    assert [each["conversation_id"] for each in found] == [NAME]


async def test_lookup(kept: KeptLogs, streams: Streams) -> None:
    await begun(kept, streams)
    await begun(kept, streams, "talk")
    await begun(kept, streams, "talks")
    kept.says = lambda _request: answer("Hi")
    _, raw = await streams.post(CHAT, STREAM, "done")
    _, found = await streams.lookup({"conversation_ids": ["talk", "done", "absent"]})
    assert {each["conversation_id"]: each["is_done"] for each in found} == {
        NAME: False,
        "talk": False,
        "done": True,
    }
    done = found[-1]
    assert set(done) == {
        *("conversation_id", "is_done", "total_bytes", "started_at", "completed_at"),
    }
    assert done["total_bytes"] == len(raw)
    assert done["completed_at"] == 1_800_000_000
    assert found[0]["completed_at"] == 0
    assert found[0]["started_at"] == int(kept.submitted[0].submitted_at)


async def test_an_ended_stream_is_measured_once(
    kept: KeptLogs, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    count = sizes._counted

    async def noted(record: StreamRecord, wire: Wire) -> Any:
        counted.append(record.stream_id)
        return await count(record, wire)

    monkeypatch.setattr(sizes, "_counted", noted)
    await begun(kept, streams, "running")
    kept.says = lambda _request: answer("Hi")
    _, raw = await streams.post(CHAT, STREAM, "done")
    names = {"conversation_ids": ["running", "done"]}
    for _ in range(2):
        _, found = await streams.lookup(names)
        assert found[1]["total_bytes"] == len(raw)
    assert (await streams.take_up("done", **{"from": 1}))[1] == raw[1:]
    assert counted == ["running", "done", "running"]


async def test_what_could_not_be_read_is_measured_again(
    kept: KeptLogs, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.says = lambda _request: answer("Hi")
    _, raw = await streams.post(CHAT, STREAM)

    async def away(*_args: Any) -> Any:
        raise UnavailableError("redis is away")

    asked = {"conversation_ids": [NAME]}
    with monkeypatch.context() as patched:
        patched.setattr(api, "generation_read", away)
        assert (await streams.lookup(asked))[1][0]["total_bytes"] != len(raw)
    assert (await streams.lookup(asked))[1][0]["total_bytes"] == len(raw)


async def test_one_stream_of_an_owner_is_measured_at_a_time(
    kept: KeptLogs, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.says = lambda _request: answer("Hi")
    await streams.post(CHAT, STREAM)
    running, most = 0, 0
    count = sizes._counted

    async def slow(record: StreamRecord, wire: Wire) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        try:
            return await count(record, wire)
        finally:
            running -= 1

    monkeypatch.setattr(sizes, "_counted", slow)
    asked = {"conversation_ids": [NAME]}
    answers = await asyncio.gather(*(Streams().lookup(asked) for _ in range(4)))
    assert (most, [status for status, _ in answers]) == (1, [200] * 4)


@pytest.mark.parametrize(
    "body", [{}, {"conversation_ids": "talk"}, {"conversation_ids": [7]}, [],
             {"conversation_ids": ["a"] * 257}, {"conversation_ids": ["a" * 257]}],
)  # fmt: skip
async def test_lookups_that_are_refused(kept: KeptLogs, streams: Streams, body: Any) -> None:
    status, answered = await streams.lookup(body)
    assert status == 400
    assert answered["error"]["message"]


async def test_questions_that_are_refused(kept: KeptLogs, streams: Streams) -> None:
    generation_id = await begun(kept, streams)
    for status, param, asked in (
        (400, "conv_id", {"name": ""}),
        (400, "from", {"from": "x"}),
        (400, "from", {"from": "-1"}),
        (400, "from", {"from": "9" * 16}),
        (400, "Last-Event-ID", {"last": "7"}),
        (400, "Last-Event-ID", {"last": f"{generation_id}:0.0"}),
        (400, "Last-Event-ID", {"last": f"{generation_id}:0.0@1,2"}),
        (404, None, {"last": "gen-other:0.0@1"}),
        (404, None, {"name": "absent"}),
    ):
        got, body = await streams.take_up(**asked)
        assert (got, json.loads(body)["error"]["param"]) == (status, param), asked


async def test_what_the_queue_forgot_is_absent(kept: KeptLogs, streams: Streams) -> None:
    kept.gone.add(await begun(kept, streams))
    assert (await streams.take_up())[0] == 404
    assert await streams.lookup({"conversation_ids": [NAME]}) == (200, [])


async def test_there_are_so_many_and_ended_ones_make_room(kept: KeptLogs, streams: Streams) -> None:
    kept.max_answers = 3
    for name in ("a", "b"):
        await begun(kept, streams, name)
    kept.says = lambda _request: answer("Hi")
    await streams.post(CHAT, STREAM, "c")
    kept.says = lambda _request: (STARTED, delta("Hi"))
    await begun(kept, streams, "d")  # c leaves
    assert set(kept.books["user:7"]) == {"a", "b", "d"}
    status, refused = await streams.post(CHAT, STREAM, "e")
    error = json.loads(refused)["error"]
    assert (status, error["reason"]) == (429, "owner_streams")
    assert streams.headers["Retry-After"] == "5"
    await begun(kept, streams, "a")  # a name of one's own is no new one
    assert len(kept.submitted) == 5
