"""Responses that are kept: read again, gone on from, cancelled, deleted; by nobody else."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from inference import bus
from inference.edge.responses import items, stored
from inference.models import Generation, ModelConfig, StoredResponse
from inference.protocol.codec import decode_request
from inference.protocol.events import CallRef, Cancelled, Delta, Failed, Finished, Usage
from inference.protocol.fold import EMPTY, fold
from inference.protocol.requests import ChatPrompt, GenerateRequest
from inference.queues.contract import Queue
from inference.registry.generations import generation_sweep, read_log
from tests.edge.events import logprobs
from tests.edge.responses.conftest import WAIT_S, Connection, World
from tests.edge.responses.events import events_of, pieces_of, read
from tests.edge.test_disconnect import until

pytestmark = pytest.mark.django_db(transaction=True)

ANSWER = (
    Delta("Hm", (1,), kind="reasoning"),
    Delta("m", (2,), kind="reasoning"),
    Delta("Hel", (3,)),
    Delta("lo 😺", (4,)),
    Delta("", (5,), kind="tool_call", call=CallRef(0, "call_1", "clock")),
    Delta("{}", (6,), kind="tool_call", call=CallRef(0)),
    Delta("", (), kind="tool_call", call=CallRef(0, end="complete")),
)
END = Finished("tool_calls", Usage(3, 6, 1))


async def prompt_of(response_id: str) -> ChatPrompt:
    """What the engine was asked for a response."""
    row = await StoredResponse.objects.select_related("generation").aget(id=response_id)
    request = decode_request(row.generation.request)
    assert isinstance(request, GenerateRequest)
    assert isinstance(request.prompt, ChatPrompt)
    return request.prompt


async def test_whole_ones_are_kept_unless_they_are_not_to_be(world: World) -> None:
    made = await world.whole(text="hello", metadata={"a": "b"})
    assert made["store"] is True
    assert await world.get(made["id"]) == (200, made)
    gone = await world.whole(text="hello", store=False)
    assert (await world.get(gone["id"]))[0] == 404
    assert await Generation.objects.acount() == 1


async def test_every_cut_of_a_stream_is_taken_up_again(world: World) -> None:
    generation_id, response = await world.begin(*ANSWER)
    world.engine.end(generation_id, END)
    told = events_of(await read(response))
    response_id = told.response["id"]
    pieces = pieces_of(told.raw)
    for after in range(len(pieces)):
        rest = await world.get_stream(response_id, after)
        assert rest.raw == b"".join(pieces[after + 1 :])
    assert (await world.get_stream(response_id)).raw == b"".join(pieces)
    assert await world.get(response_id) == (200, told.response)


async def test_a_stream_is_taken_up_again_while_it_runs(world: World) -> None:
    generation_id, response = await world.begin(*ANSWER[:3])
    chunks = response.streaming_content
    seen = b""
    async with asyncio.timeout(WAIT_S):
        while b"Hel" not in seen:
            seen += await anext(chunks)
    last = events_of(seen).data[-1]
    assert last["delta"] == "Hel"
    status, running = await world.get(last_id(seen))
    assert (status, running["status"], running["output"]) == (200, "in_progress", [])
    again = asyncio.create_task(world.get_stream(last_id(seen), last["sequence_number"]))
    await until(lambda: len(world.engine.running) == 1)
    world.engine.write(generation_id, *ANSWER[3:])
    world.engine.end(generation_id, END)
    rest = await again
    whole = seen + b"".join([part async for part in chunks])
    assert seen + rest.raw == whole
    assert rest.response["status"] == "completed"


def last_id(seen: bytes) -> str:
    """The id of the response that a stream is of."""
    found: str = events_of(seen).data[0]["response"]["id"]
    return found


async def test_c07_a_streams_reader_may_leave_if_it_is_stored(world: World) -> None:
    kept = Connection(world.headers, input="Hello", stream=True)
    kept_id = await world.claimed()
    plain = Connection(world.headers, input="Hello", stream=True, store=False)
    plain_id = await world.claimed()
    for generation_id in (kept_id, plain_id):
        world.engine.write(generation_id, *ANSWER[:3])
    await kept.leave()
    await plain.leave()
    await until(lambda: plain_id in world.engine.cancelled())
    assert world.engine.cancelled() == {plain_id: "reader_gone"}
    world.engine.write(kept_id, *ANSWER[3:])
    world.engine.end(kept_id, END)
    status, body = await world.get(last_id(kept.sent))
    assert (status, body["status"]) == (200, "completed")
    assert body["output"][1]["content"][0]["text"] == "Hello 😺"


async def test_c07_a_whole_ones_client_that_leaves_ends_it(world: World) -> None:
    """Nobody has its id."""
    task = asyncio.create_task(world.send())
    generation_id = await world.claimed()
    task.cancel()
    await asyncio.wait({task}, timeout=WAIT_S)
    await until(lambda: generation_id in world.engine.cancelled())
    await nothing_is_left()


async def nothing_is_left() -> None:
    """Until no generation is stored."""
    async with asyncio.timeout(WAIT_S):
        while await Generation.objects.aexists():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_one_goes_on_from_another(world: World) -> None:
    first = await world.whole(*ANSWER, terminal=END, input="one", instructions="Be brief.")
    output = {"type": "function_call_output", "call_id": "call_1", "output": "noon"}
    second = await world.whole(
        text="It is noon.", input=[output], previous_response_id=first["id"], instructions="Rhyme."
    )
    assert second["previous_response_id"] == first["id"]
    third = await world.whole(text="bye", input="three", previous_response_id=second["id"])
    told = [(m.role, m.content) for m in (await prompt_of(third["id"])).messages]
    assert told == [  # instructions aren't carried over
        ("user", "one"),
        ("assistant", "Hello 😺"),
        ("tool", "noon"),
        ("assistant", "It is noon."),
        ("user", "three"),
    ]
    answer = (await prompt_of(second["id"])).messages[2]
    assert (answer.reasoning, answer.tool_calls[0].id) == ("Hmm", "call_1")
    _, page = await world.get(f"{third['id']}/input_items?order=asc&limit=100")
    kinds = [item["type"] for item in page["data"]]
    assert kinds == [
        *("message", "reasoning", "message", "function_call"),
        *("function_call_output", "message", "message"),
    ]
    ids = [item["id"] for item in page["data"]]
    assert len(set(ids)) == len(ids)
    assert page["data"][0]["content"] == [{"type": "input_text", "text": "one"}]
    assert (page["first_id"], page["last_id"], page["has_more"]) == (ids[0], ids[-1], False)
    _, newest = await world.get(f"{third['id']}/input_items?limit=2")
    assert [item["id"] for item in newest["data"]] == ids[:-3:-1]
    assert newest["has_more"]
    _, next_page = await world.get(f"{third['id']}/input_items?limit=100&after={ids[-2]}")
    assert [item["id"] for item in next_page["data"]] == ids[-3::-1]


async def test_items_shown_as_input_keep_their_log_probabilities(world: World) -> None:
    said = [Delta(text, (7,), logprobs=(logprobs(text),)) for text in ("Hel", "lo")]
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    first = await world.whole(*said, terminal=Finished("stop"), input="one", **fields)
    (part,) = first["output"][0]["content"]
    assert [told["token"] for told in part["logprobs"]] == ["Hel", "lo"]
    given = {"role": "assistant", "content": "Mine."}
    second = await world.whole(
        text="bye",
        input=[given, {"role": "user", "content": "two"}],
        previous_response_id=first["id"],
    )
    third = await world.whole(text="bye", input="three", previous_response_id=second["id"])
    for query in ("", "&order=asc"):
        _, page = await world.get(f"{third['id']}/input_items?limit=100{query}")
        items = {item["id"]: item for item in page["data"]}
        assert items[first["output"][0]["id"]] == first["output"][0]
        assert items[second["output"][0]["id"]]["content"][0]["logprobs"] == []
        (own,) = [item for item in page["data"] if item["content"][0]["text"] == "Mine."]
        assert own["content"][0]["logprobs"] == []


async def test_items_are_referred_to(world: World) -> None:
    first = await world.whole(text="hello", input="one")
    _, page = await world.get(f"{first['id']}/input_items")
    asked = [
        {"type": "item_reference", "id": page["data"][0]["id"]},
        {"id": first["output"][0]["id"]},
        {"role": "user", "content": "two"},
    ]
    second = await world.whole(text="hello", input=asked)
    told = [(m.role, m.content) for m in (await prompt_of(second["id"])).messages]
    assert told == [("user", "one"), ("assistant", "hello"), ("user", "two")]
    response = await world.send(input=[{"type": "item_reference", "id": first["id"]}])
    assert response.status_code == 400


async def test_somebody_elses_are_absent(world: World, strange: World) -> None:
    made = await world.whole(text="hello")
    theirs = made["id"]
    for response in (
        await strange.raw(theirs),
        await strange.raw(f"{theirs}?stream=true"),
        await strange.raw(f"{theirs}/input_items"),
        await strange.delete(theirs),
        await strange.send(f"/{made['id']}/cancel"),
        await strange.raw(f"resp_{'x' * 32}"),
        await strange.raw("anything"),
    ):
        assert response.status_code == 404
        message = json.loads(response.content)["error"]["message"]
        assert message == "there is no such response"
    response = await strange.send(previous_response_id=made["id"])
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["param"] == "previous_response_id"
    response = await strange.send(input=[{"id": made["output"][0]["id"]}])
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["param"] == "input[0].id"
    assert (await world.get(made["id"]))[0] == 200


async def test_a_key_for_other_models_finds_none(world: World) -> None:
    await ModelConfig.objects.acreate(name="other", engine_class="mock")
    made = await world.whole(text="hello", input="one")
    limited = await sync_to_async(World)(world.engine, world.user, model_names=["other"])
    for response in (
        await limited.raw(made["id"]),
        await limited.raw(f"{made['id']}?stream=true"),
        await limited.raw(f"{made['id']}/input_items"),
        await limited.delete(made["id"]),
        await limited.send(f"/{made['id']}/cancel"),
    ):
        assert response.status_code == 404
    for body, param in (
        ({"previous_response_id": made["id"]}, "previous_response_id"),
        ({"input": [{"id": made["output"][0]["id"]}]}, "input[0].id"),
    ):
        response = await limited.send(model="other", **body)
        assert response.status_code == 400
        assert json.loads(response.content)["error"]["param"] == param
    both = await sync_to_async(World)(world.engine, world.user, model_names=["mock", "other"])
    assert await both.get(made["id"]) == (200, made)
    await both.whole(text="bye", previous_response_id=made["id"])


async def test_all_that_references_mean_is_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what no model is shown."""
    monkeypatch.setattr(items, "MAX_REQUEST_CHARS", 5000)
    sealed = {"type": "compaction", "encrypted_content": "x" * 1000}
    hello = {"role": "user", "content": "Hello"}
    first = await world.whole(text="hello", input=[sealed, hello])
    _, page = await world.get(f"{first['id']}/input_items?order=asc")
    reference = {"id": page["data"][0]["id"]}
    await world.whole(text="hello", input=[reference] * 3 + [hello])
    for given in ([reference] * 5 + [hello], [{**hello, "x": "y" * 5000}]):
        for path in ("", "/input_tokens"):
            response = await world.send(path, input=given)
            assert response.status_code == 400
            error = json.loads(response.content)["error"]
            assert (error["param"], "5000 characters" in error["message"]) == ("input", True)
    assert await StoredResponse.objects.acount() == 2


async def test_what_is_gone_on_from_or_referred_to_is_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = {"type": "compaction", "encrypted_content": "x" * 1000}
    hello = {"role": "user", "content": "Hello"}
    first = await world.whole(text="hello", input=[hello, sealed])
    monkeypatch.setattr(stored, "MAX_REQUEST_CHARS", 1000)
    response = await world.send(previous_response_id=first["id"])
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["param"] == "previous_response_id"
    response = await world.send(input=[{"id": first["output"][0]["id"]}])
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["param"] == "input"


async def test_looking_at_items_is_no_use_of_them(world: World) -> None:
    first = await world.whole(text="hello", input="half \ud83d and 😺")
    second = await world.whole(text="bye", previous_response_id=first["id"])
    row = await StoredResponse.objects.aget(id=first["id"])
    _, page = await world.get(f"{second['id']}/input_items?limit=3")
    assert page["data"][2]["content"][0]["text"] == "half \ufffd and 😺"
    assert not page["has_more"]
    again = await StoredResponse.objects.aget(id=first["id"])
    assert again.used_at == row.used_at


async def test_cancel(world: World) -> None:
    generation_id, response = await world.begin(*ANSWER[:3])
    response_id = last_id(await anext(response.streaming_content))
    task = asyncio.create_task(world.send(f"/{response_id}/cancel"))
    await until(lambda: world.engine.cancelled() == {generation_id: "user"})
    world.engine.end(generation_id, Cancelled("user", Usage(3, 2, 1)))
    async with asyncio.timeout(WAIT_S):
        body = json.loads((await task).content)
    assert body["status"] == "cancelled"
    assert body["output"][1]["content"][0]["text"] == "Hel"
    again = await world.send(f"/{response_id}/cancel")
    assert json.loads(again.content) == body


async def test_an_ended_one_stays_when_it_is_cancelled(world: World) -> None:
    made = await world.whole(text="hello")
    response = await world.send(f"/{made['id']}/cancel")
    assert (response.status_code, json.loads(response.content)) == (200, made)


async def test_delete(world: World) -> None:
    first = await world.whole(text="hello")
    second = await world.whole(text="hello", previous_response_id=first["id"])
    response = await world.delete(first["id"])
    assert json.loads(response.content) == {
        "id": first["id"],
        "object": "response",
        "deleted": True,
    }
    assert (await world.get(first["id"]))[0] == 404
    assert (await world.get(second["id"]))[0] == 200
    _, page = await world.get(f"{second['id']}/input_items")
    assert len(page["data"]) == 1
    response = await world.send(previous_response_id=second["id"])
    assert response.status_code == 400
    assert "deleted" in json.loads(response.content)["error"]["message"]


async def test_deleting_a_running_one_ends_it(world: World) -> None:
    generation_id, response = await world.begin(*ANSWER[:3])
    response_id = last_id(await anext(response.streaming_content))
    assert (await world.delete(response_id)).status_code == 200
    assert world.engine.cancelled() == {generation_id: "deleted"}
    assert not await Generation.objects.aexists()


async def test_in_the_background(world: World) -> None:
    response = await world.send(background=True)
    made = json.loads(response.content)
    assert response.status_code == 200, made
    assert (made["status"], made["background"], made["output"]) == ("queued", True, [])
    assert (await world.get(made["id"]))[1]["status"] == "queued"
    generation_id = await world.claimed()
    claim, _ = world.engine.running[generation_id]
    assert isinstance(claim.request, GenerateRequest)
    assert claim.request.lane == "background"
    assert (await world.get(made["id"]))[1]["status"] == "in_progress"
    response = await world.send(previous_response_id=made["id"])
    assert response.status_code == 400  # it hasn't ended
    world.engine.end(generation_id, text="hello")
    _, ended = await world.get(made["id"])
    assert ended["status"] == "completed"
    told = await world.get_stream(made["id"])
    assert told.names[:3] == ["response.created", "response.queued", "response.in_progress"]
    assert told.response == ended


async def test_a_schema_that_is_refused_in_the_background_is_named_as_the_request_has_it(
    world: World,
) -> None:
    tools = [{"type": "web_search"}, {"type": "function", "name": "f", "strict": True}]
    made = json.loads((await world.send(background=True, tools=tools)).content)
    generation_id = await world.claimed(says_so=False)
    path = "tools[0].function.parameters.uniqueItems"
    world.engine.end(generation_id, Failed("invalid_request", "is not supported", param=path))
    _, ended = await world.get(made["id"])
    assert ended["status"] == "failed"
    assert ended["error"]["message"] == "tools[1].parameters.uniqueItems: is not supported"
    assert (await world.get_stream(made["id"])).response == ended


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_refusal_leaves_nothing(is_stream: bool, world: World) -> None:
    task = asyncio.create_task(world.send(stream=is_stream))
    generation_id = await world.claimed(says_so=False)
    details = (("n_prompt_tokens", 99), ("n_ctx", 64))
    too_long = Failed("context_length_exceeded", "too long", details=details)
    world.engine.end(generation_id, too_long)
    async with asyncio.timeout(WAIT_S):
        response = await task
    assert response.status_code == 400
    await nothing_is_left()


async def test_a_full_queue_leaves_nothing(world: World, settings: Any) -> None:
    settings.MAX_QUEUED = 1
    bus.sync_queue.cache_clear()
    response = await world.send(background=True)
    assert response.status_code == 200
    for is_stream in (False, True):
        response = await world.send(stream=is_stream)
        assert response.status_code == 503
        assert json.loads(response.content)["error"]["reason"] == "queue_full"
        assert response["Retry-After"]
    async with asyncio.timeout(WAIT_S):
        while await Generation.objects.acount() > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_what_failed_says_so(world: World) -> None:
    generation_id, response = await world.begin(*ANSWER[:3])
    world.engine.end(generation_id, Failed("engine_failed", "the model failed"))
    told = events_of(await read(response))
    assert told.response["status"] == "failed"
    assert await world.get(told.response["id"]) == (200, told.response)
    assert pieces_of((await world.get_stream(told.response["id"])).raw) == pieces_of(told.raw)


async def test_the_sweep_keeps_the_cuts_too(world: World) -> None:
    generation_id, response = await world.begin(*ANSWER)
    world.engine.end(generation_id, END)
    await sync_to_async(generation_sweep)()
    told = events_of(await read(response))
    again = await world.get_stream(told.response["id"], 3)
    assert again.raw == b"".join(pieces_of(told.raw)[4:])


async def test_numbers_that_are_lost_are_not_made_up(world: World, queue: Queue) -> None:
    """A log over its bound is folded: the events of its beginning come as one each."""
    generation_id, response = await world.begin(*ANSWER[:4])
    response_id = last_id(await anext(response.streaming_content))
    log = read_log(queue, "mock", generation_id)
    assert log is not None
    claim, _ = world.engine.running[generation_id]
    snapshot = fold(EMPTY, log.entries)
    assert queue.fold("mock", "e", generation_id, claim.epoch, snapshot)
    running = await world.raw(f"{response_id}?stream=true&starting_after=3")
    assert running.status_code == 400
    world.engine.write(generation_id, *ANSWER[4:])
    world.engine.end(generation_id, END)
    ended = await world.raw(f"{response_id}?stream=true&starting_after=3")
    assert ended.status_code == 400
    assert json.loads(ended.content)["error"]["param"] == "starting_after"
    told = await world.get_stream(response_id)
    assert told.joined("response.output_text.delta") == "Hello 😺"
    assert len(told.of("response.output_text.delta")) == 1
    assert (await world.get(response_id))[1] == told.response
