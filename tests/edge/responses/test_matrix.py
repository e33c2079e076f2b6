"""Responses, streamed and whole: answers, mistakes, failures, cancels, bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inference.protocol.events import CallRef, Cancelled, Delta, Event, Failed
from llamaweb.lib.errors import BusyError
from tests.edge.events import STARTED, answer, delta, finished
from tests.edge.responses.events import post, stream
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
OFF: dict[str, Any] = {"store": False}
TOO_LONG = Failed(
    "context_length_exceeded", "too long", details=(("n_prompt_tokens", 99), ("n_ctx", 64))
)
CALL = {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}}


def called(call_id: str = "call_1") -> tuple[Event, ...]:
    """Thoughts, text and a call."""
    return (
        STARTED,
        Delta("Hm", (1,), kind="reasoning"),
        Delta("m.", (2,), kind="reasoning"),
        Delta("I look.", (3,)),
        Delta("", (4,), kind="tool_call", call=CallRef(0, call_id, "clock")),
        Delta("{", (5,), kind="tool_call", call=CallRef(0)),
        Delta("}", (6,), kind="tool_call", call=CallRef(0)),
        Delta("", (), kind="tool_call", call=CallRef(0, end="complete")),
        finished("tool_calls"),
    )


async def test_ok_whole(says: Says, wire: Wire) -> None:
    says(*answer("Hel", "lo"))
    status, body = await post(wire, **OFF)
    assert status == 200
    assert (body["object"], body["status"], body["model"]) == ("response", "completed", "tiny")
    assert body["id"].startswith("resp_")
    (message,) = body["output"]
    assert (message["type"], message["role"], message["status"]) == (
        "message",
        "assistant",
        "completed",
    )
    (part,) = message["content"]
    assert (part["type"], part["text"], part["annotations"]) == ("output_text", "Hello", [])
    assert body["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 13,
    }
    assert body["error"] is None
    assert body["incomplete_details"] is None
    assert body["completed_at"] >= body["created_at"]


async def test_ok_streamed(says: Says, wire: Wire) -> None:
    says(*answer("Hel", "lo"))
    got = await stream(wire, **OFF)
    assert got.names == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert got.data[0]["response"]["status"] == "in_progress"
    assert got.joined("response.output_text.delta") == "Hello"
    assert got.of("response.output_text.done")[0]["text"] == "Hello"
    item_id = got.response["output"][0]["id"]
    about = [event for event in got.data if "item_id" in event]
    assert {event["item_id"] for event in about} == {item_id}
    assert {event["output_index"] for event in about} == {0}
    assert {event["content_index"] for event in about} == {0}


async def test_streamed_and_whole_are_the_same(says: Says, wire: Wire) -> None:
    fake = says(*called())
    body = {**OFF, "tools": [CALL], "seed": 1}
    _, whole = await post(wire, **body)
    got = (await stream(wire, **body)).response
    assert [call.reply.reply_id for call in fake.submitted] == [whole["id"], got["id"]]

    def essence(response: dict[str, Any]) -> dict[str, Any]:
        key = response["id"].removeprefix("resp_")
        text = str({k: v for k, v in response.items() if not k.endswith("_at")})
        return {"text": text.replace(key, "KEY")}

    assert essence(whole) == essence(got)


async def test_thoughts_text_and_calls_are_items_of_their_own(says: Says, wire: Wire) -> None:
    says(*called())
    got = await stream(wire, tools=[CALL], **OFF)
    thoughts, message, call = got.response["output"]
    assert thoughts["content"] == [{"type": "reasoning_text", "text": "Hmm."}]
    assert thoughts["summary"] == []
    assert message["content"][0]["text"] == "I look."
    assert (call["call_id"], call["name"], call["arguments"]) == ("call_1", "clock", "{}")
    assert [item["status"] for item in got.response["output"]] == ["completed"] * 3
    assert got.joined("response.reasoning_text.delta") == "Hmm."
    assert got.joined("response.function_call_arguments.delta") == "{}"
    assert got.of("response.function_call_arguments.done")[0]["arguments"] == "{}"
    assert [e["output_index"] for e in got.of("response.output_item.added")] == [0, 1, 2]
    done = [event["item"] for event in got.of("response.output_item.done")]
    assert done == got.response["output"]
    assert got.response["usage"]["output_tokens_details"] == {"reasoning_tokens": 2}


async def test_thoughts_as_a_summary_where_one_is_asked_for(says: Says, wire: Wire) -> None:
    says(*called())
    got = await stream(wire, tools=[CALL], reasoning={"summary": "auto"}, **OFF)
    thoughts = got.response["output"][0]
    assert thoughts["summary"] == [{"type": "summary_text", "text": "Hmm."}]
    assert thoughts["content"] == []
    assert got.joined("response.reasoning_summary_text.delta") == "Hmm."
    assert got.of("response.reasoning_summary_part.done")[0]["part"]["text"] == "Hmm."
    assert not got.of("response.reasoning_text.delta")


async def test_a_limit_leaves_it_incomplete(says: Says, wire: Wire) -> None:
    says(STARTED, delta("Hel"), finished("length"))
    _, whole = await post(wire, **OFF)
    got = await stream(wire, **OFF)
    assert got.names[-1] == "response.incomplete"
    for body in (whole, got.response):
        assert body["status"] == "incomplete"
        assert body["incomplete_details"] == {"reason": "max_output_tokens"}
        assert body["output"][0]["status"] == "incomplete"
        assert "completed_at" not in body


async def test_a_call_that_was_cut_is_incomplete(says: Says, wire: Wire) -> None:
    says(*called()[:6], finished("length"))
    _, body = await post(wire, tools=[CALL], **OFF)
    assert body["output"][-1]["status"] == "incomplete"
    assert body["output"][-1]["arguments"] == "{"


@pytest.mark.parametrize("is_stream", [False, True])
async def test_client_errors(is_stream: bool, says: Says, wire: Wire) -> None:
    fake = says(*answer("no"))
    status, body = await post(wire, stream=is_stream, input=[{"role": "user"}], **OFF)
    assert status == 400
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["param"] == "input[0]"
    assert fake.submitted == []


async def test_engine_failure_whole(says: Says, wire: Wire) -> None:
    says(STARTED, *map(delta, "abcdefghij"), Failed("engine_failed", "the model failed"))
    status, body = await post(wire, **OFF)
    assert status == 500
    assert body["error"]["message"] == "the model failed"


async def test_t11_engine_failure_streamed(says: Says, wire: Wire) -> None:
    says(STARTED, *map(delta, "abcdefghij"), Failed("engine_failed", "the model failed"))
    got = await stream(wire, **OFF)
    assert got.names[-1] == "response.failed"
    assert got.response["status"] == "failed"
    assert got.response["error"] == {"code": "server_error", "message": "the model failed"}
    assert got.response["output"][0]["content"][0]["text"] == "abcdefghij"
    assert got.response["output"][0]["status"] == "incomplete"


async def test_cancel_whole(says: Says, wire: Wire) -> None:
    says(STARTED, delta("a"), Cancelled("user"))
    status, body = await post(wire, **OFF)
    assert (status, body["error"]["type"]) == (499, "request_cancelled")


async def test_cancel_streamed(says: Says, wire: Wire) -> None:
    says(STARTED, delta("a"), Cancelled("user"))
    got = await stream(wire, **OFF)
    assert got.names[-1] == "response.incomplete"
    assert (got.response["status"], got.response["error"]) == ("cancelled", None)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_p11_too_long(is_stream: bool, says: Says, wire: Wire) -> None:
    says(TOO_LONG)
    status, body = await post(wire, stream=is_stream, **OFF)
    assert status == 400
    assert body["error"]["type"] == "exceed_context_size_error"
    assert (body["error"]["n_prompt_tokens"], body["error"]["n_ctx"]) == (99, 64)


@pytest.mark.parametrize("is_stream", [False, True])
async def test_busy(is_stream: bool, says: Says, wire: Wire) -> None:
    fake = says(*answer("no"))
    fake.refusal = BusyError("full", reason="queue_full", retry_after_s=5)
    status, body = await post(wire, stream=is_stream, **OFF)
    assert status == 503
    assert body["error"]["reason"] == "queue_full"


async def test_one_that_failed_in_its_queue_begins_with_created(says: Says, wire: Wire) -> None:
    """The official client wants it first, whatever comes then."""
    says(STARTED, Failed("engine_failed", "no"))
    got = await stream(wire, **OFF)
    assert got.names == ["response.created", "response.in_progress", "response.failed"]


async def test_t05_any_text_comes_through(says: Says, wire: Wire) -> None:
    text = "ok 😺 漢字 é\r\u2028\u2029\x85\n\ndata: x"
    says(STARTED, *map(delta, text), finished())
    got = await stream(wire, **OFF)
    assert got.joined("response.output_text.delta") == text
    assert b"\r" not in got.raw
    assert got.response["output"][0]["content"][0]["text"] == text


async def test_log_probabilities(says: Says, wire: Wire) -> None:
    from tests.edge.events import logprobs

    says(STARTED, Delta("a", (7,), logprobs=(logprobs("a"),)), finished())
    body = {"include": ["message.output_text.logprobs"], "top_logprobs": 1, **OFF}
    got = await stream(wire, **body)
    (told,) = got.of("response.output_text.delta")[0]["logprobs"]
    assert (told["token"], told["bytes"], told["logprob"]) == ("a", [97], -0.5)
    assert [rival["token"] for rival in told["top_logprobs"]] == ["a"]
    assert got.response["output"][0]["content"][0]["logprobs"] == [told]
    says(STARTED, Delta("a", (7,), logprobs=(logprobs("a"),)), finished())
    assert (await stream(wire, **OFF)).of("response.output_text.delta")[0]["logprobs"] == []
