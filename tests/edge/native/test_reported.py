"""Reported cases that only llama-server's routes can say, each under its number, on the mock
engine; the others are in `tests.edge.cases`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inference.protocol.events import Finished, Result
from inference.protocol.requests import ChatPrompt, RenderRequest
from inference.protocol.results import RenderResult
from tests.edge.events import answer
from tests.edge.native.conftest import Speaks
from tests.edge.wire import HELLO, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
PATHS = ("/completion", "/v1/completions")
TEMPLATE = "/apply-template"
each_path = pytest.mark.parametrize("path", PATHS)


def said(body: Any) -> str:
    """The text of a reply or a chunk."""
    text: str = body["choices"][0]["text"] if "choices" in body else body["content"]
    return text


def ended(body: Any) -> str:
    """Why: `stop` or `length`."""
    if "choices" in body:
        reason: str = body["choices"][0]["finish_reason"]
        return reason
    return {"eos": "stop", "word": "stop", "limit": "length"}[body["stop_type"]]


async def both(wire: Wire, path: str, **fields: Any) -> tuple[str, Any]:
    """The text, which is the same streamed and whole, and the last chunk."""
    status, body = await wire.post(path, **fields)
    assert status == 200
    streamed = await wire.stream(path, **fields)
    assert "".join(map(said, streamed.data)) == said(body)
    assert ended(streamed.data[-1]) == ended(body)
    return said(body), streamed.data[-1]


@each_path
@pytest.mark.parametrize(
    ("value", "limit"), [(0, 0), (-1, None), (10**9, 10**9), (1.5, "400"), ("10", "400")]
)
async def test_p07_lengths(
    says: Says, wire: Wire, path: str, value: Any, limit: int | str | None
) -> None:
    fake = says(*answer("x"))
    for name in ("max_tokens", "n_predict", "max_completion_tokens"):
        status, body = await wire.post(path, **{name: value})
        if limit == "400":
            assert (status, body["error"]["param"]) == (400, name)
        else:
            assert (status, fake.submitted[-1].limits.max_tokens) == (200, limit)


@each_path
async def test_p07_a_huge_length_ends_with_the_context(
    speaks: Speaks, wire: Wire, path: str
) -> None:
    speaks("y" * 5000)
    text, last = await both(wire, path, prompt="x" * 4000, max_tokens=10**9, temperature=0)
    assert (len(text), ended(last)) == (96, "length")
    if path == "/completion":
        assert last["truncated"]


@pytest.mark.parametrize("path", [*PATHS, "/infill", "/tokenize", TEMPLATE])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"null",
        b"[" * 10_000,
        b'{"prompt": ' + b"[" * 10_000,
        b'{"content": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
    ],
)
async def test_p13_bodies_that_are_none(
    fake: FakeInference, wire: Wire, path: str, body: bytes
) -> None:
    response = await wire.raw(path, body)
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "prompt", [{}, [None], [[None]], [[]], 7, True, [1.5], {"prompt_string": 7}, [["a"], 1]]
)
@each_path
async def test_p13_prompts_that_are_none(
    fake: FakeInference, wire: Wire, path: str, prompt: Any
) -> None:
    status, body = await wire.post(path, prompt=prompt)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert body["error"]["param"].startswith("prompt")


@pytest.mark.parametrize("path", [TEMPLATE, "/v1/chat/completions/input_tokens"])
@pytest.mark.parametrize(
    ("messages", "param"),
    [
        pytest.param(None, "messages", id="P13-null"),
        pytest.param({}, "messages", id="P13-object"),
        pytest.param("x", "messages", id="P13-text"),
        pytest.param([None], "messages[0]", id="P13-nulls"),
        pytest.param([{"role": "user"}], "messages[0].content", id="P13-empty"),
        pytest.param(
            [{"role": "user", "content": [{"type": "text", "text": None}]}],
            "messages[0].content[0].text",
            id="P08-null",
        ),
        pytest.param([{"role": "user", "content": []}], "messages[0].content", id="P08-none"),
        pytest.param(
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ""}}]}],
            "messages[0].content[0]",
            id="P08-image",
        ),
        pytest.param(
            [{"role": "user", "content": [{"type": "smell"}]}],
            "messages[0].content[0].type",
            id="P08-unknown",
        ),
    ],
)
async def test_messages_that_are_none(
    fake: FakeInference, wire: Wire, path: str, messages: Any, param: str
) -> None:
    status, body = await wire.post(path, messages=messages)
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert body["error"]["param"] == param
    assert fake.submitted == []


async def rendered(fake: FakeInference, wire: Wire, **fields: Any) -> ChatPrompt:
    """What the template would get."""
    status, _ = await wire.post(TEMPLATE, **fields)
    assert status == 200
    request = fake.submitted[-1]
    assert isinstance(request, RenderRequest)
    return request.prompt


@pytest.fixture
def template(says: Says) -> FakeInference:
    """A model that renders chats."""
    return says(Result(RenderResult("x")), Finished("stop"))


async def test_p01_p03_system_messages_anywhere(template: FakeInference, wire: Wire) -> None:
    roles = ["system", "user", "assistant", "developer", "user"]
    messages = [{"role": role, "content": str(n)} for n, role in enumerate(roles)]
    prompt = await rendered(template, wire, messages=messages)
    assert [m.role for m in prompt.messages] == ["system", "user", "assistant", "system", "user"]


async def test_p04_calls_without_content(template: FakeInference, wire: Wire) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "12"},
    ]
    prompt = await rendered(template, wire, messages=messages)
    assert (prompt.messages[1].content, prompt.messages[1].tool_calls[0].name) == ("", "f")
    assert prompt.messages[2].tool_call_id == "c1"


@each_path
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"json_schema": "x"}, id="S05-no-schema"),
        pytest.param({"json_schema": {"type": "string", "pattern": "("}}, id="S05-pattern"),
        pytest.param({"json_schema": {"$ref": "#/absent"}}, id="S06-ref"),
        pytest.param({"json_schema": {"not": {}}}, id="S06-keyword"),
        pytest.param({"grammar": "root ::= ("}, id="S05-grammar"),
    ],
)
async def test_forms_that_cannot_be_kept(
    speaks: Speaks, wire: Wire, path: str, fields: dict[str, Any]
) -> None:
    speaks("never")
    for stream in (True, False):
        status, body = await wire.post(path, **fields, stream=stream)
        assert (status, body["error"]["type"]) == (400, "invalid_request_error")
        assert body["error"]["param"].startswith(next(iter(fields)))
