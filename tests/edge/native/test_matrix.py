"""Every route of llama-server's, streamed and whole: done, wrong, failed, too long, left, busy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from inference.protocol.events import Event, Failed, Finished, Result
from inference.protocol.results import (
    CountResult,
    DetokenizeResult,
    RenderResult,
    TokenizeResult,
    UtilityResult,
)
from llamaweb.lib.errors import BusyError
from tests.edge.events import STARTED, answer, delta
from tests.edge.test_disconnect import AsgiClient, hanging, until
from tests.edge.wire import HELLO, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
GAP = {"input_prefix": "def f(", "input_suffix": "):", "prompt": ""}
COMPLETIONS: list[tuple[str, dict[str, Any]]] = [
    ("/completion", {"prompt": "Hello"}),
    ("/completions", {"prompt": "Hello"}),
    ("/infill", GAP),
    ("/v1/completions", {"prompt": "Hello", "suffix": "!", "echo": True}),
]
UTILITIES: list[tuple[str, dict[str, Any], UtilityResult, dict[str, Any]]] = [
    ("/tokenize", {"content": "ab"}, TokenizeResult((97, 98)), {"tokens": [97, 98]}),
    ("/detokenize", {"tokens": [97, 98]}, DetokenizeResult("ab"), {"content": "ab"}),
    (
        "/apply-template",
        {"messages": HELLO},
        RenderResult("<user>Hello"),
        {"prompt": "<user>Hello"},
    ),
    (
        "/v1/chat/completions/input_tokens",
        {"messages": HELLO},
        CountResult(7),
        {"input_tokens": 7, "object": "response.input_tokens"},
    ),
    (
        "/chat/completions/input_tokens",
        {"messages": HELLO},
        CountResult(7),
        {"input_tokens": 7, "object": "response.input_tokens"},
    ),
]
TOO_LONG = Failed(
    "context_length_exceeded", "too long", details=(("n_prompt_tokens", 5012), ("n_ctx", 256))
)
FAILURE = Failed("engine_failed", "it broke")
each_completion = pytest.mark.parametrize(("path", "fields"), COMPLETIONS)
each_utility = pytest.mark.parametrize(("path", "fields", "result", "body"), UTILITIES)
both_ways = pytest.mark.parametrize("stream", [True, False])


def said(body: Any) -> str:
    """The text of a reply, or of one chunk of it."""
    text: str = body["choices"][0]["text"] if "choices" in body else body["content"]
    return text


@each_completion
async def test_done(says: Says, wire: Wire, path: str, fields: dict[str, Any]) -> None:
    fake = says(*answer("Hi", " there"))
    status, body = await wire.post(path, **fields)
    assert status == 200
    streamed = await wire.stream(path, **fields)
    assert "".join(map(said, streamed.data)) == said(body)
    assert said(body).endswith("Hi there")
    assert streamed.is_done == path.startswith("/v1/")
    assert fake.cancelled == []


@each_completion
@both_ways
async def test_wrong(
    says: Says, wire: Wire, path: str, fields: dict[str, Any], stream: bool
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(path, **{**fields, "n_predict": "10"}, stream=stream)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert (body["error"]["param"], body["error"]["code"]) == ("n_predict", 400)
    assert fake.submitted == []


@each_completion
@both_ways
@pytest.mark.parametrize(
    ("end", "status", "kind"),
    [(FAILURE, 500, "server_error"), (TOO_LONG, 400, "exceed_context_size_error")],
)
async def test_failed_and_too_long(
    says: Says,
    wire: Wire,
    path: str,
    fields: dict[str, Any],
    stream: bool,
    end: Event,
    status: int,
    kind: str,
) -> None:
    says(end)
    got, body = await wire.post(path, **fields, stream=stream)
    assert (got, body["error"]["type"], body["error"]["code"]) == (status, kind, status)
    if end is TOO_LONG:  # P11
        assert (body["error"]["n_prompt_tokens"], body["error"]["n_ctx"]) == (5012, 256)


@each_completion
async def test_failed_in_the_middle(
    says: Says, wire: Wire, path: str, fields: dict[str, Any]
) -> None:
    """T11: what was said stays, then an error, and the stream's end isn't that of a whole one."""
    says(STARTED, delta("Hi"), FAILURE)
    streamed = await wire.stream(path, **fields)
    assert "".join(map(said, streamed.data[:-1])).endswith("Hi")
    error = streamed.data[-1]["error"]
    assert (error["message"], error["type"], error["code"]) == ("it broke", "server_error", 500)
    assert not streamed.is_done
    status, body = await wire.post(path, **fields)
    assert (status, body["error"]["message"]) == (500, "it broke")


@each_completion
@both_ways
async def test_left(fake: FakeInference, path: str, fields: dict[str, Any], stream: bool) -> None:
    """C07: a client that goes ends its generation."""
    fake.script = hanging(STARTED, delta("x"))
    client = AsgiClient(path, **fields, stream=stream)
    await until(lambda: bool(fake.reading))
    if stream:
        await asyncio.wait_for(client.arrived.wait(), 10.0)
    await client.leave()
    await fake.wait_cancelled()
    assert fake.cancelled == [(fake.submitted[0].generation_id, "reader_gone")]


@each_completion
@both_ways
@pytest.mark.parametrize(("reason", "status"), [("queue_full", 503), ("owner_queue_full", 429)])
async def test_busy(
    fake: FakeInference,
    wire: Wire,
    path: str,
    fields: dict[str, Any],
    stream: bool,
    reason: str,
    status: int,
) -> None:
    fake.refusal = BusyError("full", reason=reason, retry_after_s=3.0)
    response = await wire.client.post(
        path, data={**fields, "stream": stream}, content_type="application/json"
    )
    assert (response.status_code, response["Retry-After"]) == (status, "3")


@each_utility
async def test_a_question_is_answered(
    says: Says, wire: Wire, path: str, fields: dict[str, Any], result: Any, body: Any
) -> None:
    says(Result(result), Finished("stop"))
    assert await wire.post(path, **fields) == (200, body)


@each_utility
async def test_a_wrong_question(
    says: Says, wire: Wire, path: str, fields: dict[str, Any], result: Any, body: Any
) -> None:
    fake = says(Result(result), Finished("stop"))
    (name,) = fields
    for value in (7, {"a": 1}):
        status, reply = await wire.post(path, **{name: value})
        assert (status, reply["error"]["param"]) == (400, name)
    assert fake.submitted == []


@each_utility
@pytest.mark.parametrize(
    ("end", "status"),
    [
        (FAILURE, 500),
        (TOO_LONG, 400),
        (Failed("not_supported", "another server's"), 501),
        (Failed("deadline_exceeded", "late"), 504),
    ],
)
async def test_a_question_without_an_answer(
    says: Says,
    wire: Wire,
    path: str,
    fields: dict[str, Any],
    result: Any,
    body: Any,
    end: Event,
    status: int,
) -> None:
    says(end)
    got, reply = await wire.post(path, **fields)
    assert (got, reply["error"]["code"]) == (status, status)


@each_utility
async def test_whoever_asks_leaves(
    fake: FakeInference, path: str, fields: dict[str, Any], result: Any, body: Any
) -> None:
    fake.script = hanging()
    client = AsgiClient(path, **fields)
    await until(lambda: bool(fake.reading))
    await client.leave()
    await fake.wait_cancelled()


@each_utility
async def test_too_many_questions(
    fake: FakeInference, wire: Wire, path: str, fields: dict[str, Any], result: Any, body: Any
) -> None:
    fake.refusal = BusyError("full", reason="owner_queue_full", retry_after_s=3.0)
    status, reply = await wire.post(path, **fields)
    assert (status, reply["error"]["reason"]) == (429, "owner_queue_full")
