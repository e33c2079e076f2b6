"""The official Anthropic clients, in Python and Node; the server's model echoes what it is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import httpx2 as httpx
import pytest
from anthropic import Anthropic

from tests.sdk.opened import opened
from tests.stack import ROOT, Stack

CLIENT_TIMEOUT_S = 30.0
NODE_TIMEOUT_S = 60.0
NODE = Path(sys.executable).parent / "node"
SCRIPT = ROOT / "tests" / "sdk" / "anthropic_client.mjs"
WEATHER = {
    "name": "weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich 😺"}}\n</tool_call>'
GREEDY = {"temperature": 0}  # a parameter that the clients have no name for any more
ANY_TEXT = "ok 😺 漢字 é\ndata: x\r\u2028y"


def _client(stack: Stack, **auth: Any) -> Anthropic:
    return opened(
        Anthropic(base_url=stack.base_url, max_retries=0, timeout=CLIENT_TIMEOUT_S, **auth)
    )


def _asked(text: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "default", "max_tokens": 500, "messages": messages, **fields}


def test_anthropic_streamed_and_whole_say_the_same(stack: Stack, key: str) -> None:
    client = _client(stack, api_key=key)
    whole = client.messages.create(**_asked(ANY_TEXT))
    (block,) = whole.content
    assert block.type == "text"
    assert (block.text, whole.stop_reason) == (ANY_TEXT, "end_turn")
    with client.messages.stream(**_asked(ANY_TEXT)) as stream:
        assert "".join(stream.text_stream) == ANY_TEXT
        final = stream.get_final_message()
    assert [b.to_dict() for b in final.content] == [block.to_dict()]
    assert final.usage.output_tokens == whole.usage.output_tokens == len(ANY_TEXT.encode())
    events = client.messages.create(**_asked("hi"), stream=True)
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]


def test_anthropic_stop_sequences_and_lengths(stack: Stack, key: str) -> None:
    client = _client(stack, api_key=key)
    stopped = client.messages.create(**_asked("alpha beta gamma", stop_sequences=["beta"]))
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "beta")
    cut = client.messages.create(**_asked("hello", max_tokens=3))
    assert (cut.to_dict()["content"][0]["text"], cut.stop_reason) == ("hel", "max_tokens")


@pytest.mark.parametrize("choice", ["auto", "any"])
def test_anthropic_tools(stack: Stack, key: str, choice: str) -> None:
    client = _client(stack, api_key=key)
    body = _asked(CALL, tools=[WEATHER], tool_choice={"type": choice}, extra_body=GREEDY)
    whole = client.messages.create(**body)
    assert whole.stop_reason == "tool_use"
    with client.messages.stream(**body) as stream:
        final = stream.get_final_message()
    for message in (whole, final):
        (block,) = message.content
        assert block.type == "tool_use"
        assert (block.name, block.input) == ("weather", {"city": "Zürich 😺"})
    results = [{"type": "tool_result", "tool_use_id": block.id, "content": "Rain."}]
    history = [*body["messages"], whole.to_param(), {"role": "user", "content": results}]
    after = client.messages.create(**{**body, "messages": history, "tool_choice": {"type": "none"}})
    assert after.stop_reason == "end_turn"


def test_anthropic_counts_and_reads_from_the_cache(stack: Stack, key: str) -> None:
    client = _client(stack, api_key=key)
    body = _asked("tell me the same thing twice", system="Be brief.")
    counted = client.messages.count_tokens(
        model="default", messages=body["messages"], system=body["system"]
    )
    for _ in range(2):
        usage = client.messages.create(**body).usage
        assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted.input_tokens
    assert usage.input_tokens == 1


def test_p14_anthropic_keys_in_both_headers(stack: Stack, key: str) -> None:
    for auth in ({"api_key": key}, {"auth_token": key}):
        assert _client(stack, **auth).messages.create(**_asked("hi")).stop_reason == "end_turn"
    for auth in ({"api_key": "wrong"}, {"auth_token": "wrong"}):
        with pytest.raises(anthropic.AuthenticationError) as caught:
            _client(stack, **auth).messages.create(**_asked("hi"))
        body: Any = caught.value.body
        assert (body["type"], body["error"]["type"]) == ("error", "authentication_error")
        assert caught.value.request_id
    headers = [{"Authorization": f"bearer   {key}"}, {"X-Api-Key": key}]
    headers.append({"Authorization": f"Bearer {key}", "X-Api-Key": "wrong"})
    url = f"{stack.base_url}/v1/messages/count_tokens"
    for good in headers:
        response = httpx.post(url, headers=good, json=_asked("x"), timeout=CLIENT_TIMEOUT_S)
        assert response.status_code == 200
    for bad in ({}, {"Authorization": "Bearer wrong", "X-Api-Key": key}):
        response = httpx.post(url, headers=bad, json=_asked("x"), timeout=CLIENT_TIMEOUT_S)
        assert (response.status_code, response.json()["type"]) == (401, "error")


def test_anthropic_mistakes(stack: Stack, key: str) -> None:
    client = _client(stack, api_key=key)
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(**_asked("hi", model="claude-sonnet-9"))
    with pytest.raises(anthropic.BadRequestError) as caught:
        client.messages.create(**_asked("hi", stop_sequences=["x"] * 65))
    assert "stop_sequences" in str(caught.value)
    with pytest.raises(anthropic.BadRequestError) as long:
        client.messages.create(**_asked("x" * 60_000))
    assert "prompt is too long: " in str(long.value)
    large = json.dumps(_asked("x" * 11_000_000))
    response = httpx.post(
        f"{stack.base_url}/v1/messages",
        headers={"X-Api-Key": key, "Content-Type": "application/json"},
        content=large,
        timeout=CLIENT_TIMEOUT_S,
    )
    assert response.status_code == 413
    assert response.json()["error"]["type"] == "request_too_large"


def test_anthropic_from_node(stack: Stack, key: str) -> None:
    given = {"baseURL": stack.base_url, "apiKey": key, "text": ANY_TEXT, "call": CALL}
    done = subprocess.run(
        [str(NODE), str(SCRIPT)],
        input=json.dumps({**given, "tool": WEATHER}),
        capture_output=True,
        text=True,
        timeout=NODE_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["whole"] == told["streamed"] == told["final"] == ANY_TEXT
    assert told["stopReason"] == "end_turn"
    assert told["use"] == {"name": "weather", "input": {"city": "Zürich 😺"}}
    assert told["toolReason"] == "tool_use"
    assert told["counted"] > len("hi")
    assert told["missing"] == {"status": 404, "type": "not_found_error", "hasRequestId": True}
    assert told["withToken"] == "hi"
