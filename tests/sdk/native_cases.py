"""llama-server's own routes over HTTP, as its plugins and scripts ask them."""

from __future__ import annotations

import json
from typing import Any

import httpx2 as httpx
import openai
import pytest
from openai import OpenAI

from tests.sdk.opened import opened
from tests.stack import Stack

TIMEOUT_S = 30.0


def call(stack: Stack, key: str, path: str, **fields: Any) -> httpx.Response:
    """POST with a key."""
    return httpx.post(
        f"{stack.base_url}{path}", json=fields, headers={"X-Api-Key": key}, timeout=TIMEOUT_S
    )


def test_completion(stack: Stack, key: str) -> None:
    body = call(stack, key, "/completion", prompt="say this", n_predict=3).json()
    assert (body["content"], body["stop_type"], body["tokens_predicted"]) == ("say", "limit", 3)
    assert (body["tokens_evaluated"], body["model"]) == (8, "mock")


def test_completion_stream_has_no_done(stack: Stack, key: str) -> None:
    response = call(stack, key, "/completion", prompt="say this", stream=True)
    lines = [line for line in response.text.splitlines() if line.startswith("data: ")]
    chunks = [json.loads(line[6:]) for line in lines]
    assert "".join(chunk["content"] for chunk in chunks) == "say this"
    assert [chunk["stop"] for chunk in chunks].count(True) == 1
    assert chunks[-1]["stop"]
    assert [t for chunk in chunks for t in chunk["tokens"]] == list(b"say this")


def test_many_short_gaps_of_which_most_are_left(stack: Stack, key: str) -> None:
    """What editors do while somebody types."""
    for n in range(8):
        with httpx.stream(
            "POST",
            f"{stack.base_url}/infill",
            json={"input_prefix": "x" * n, "input_suffix": "y", "prompt": "", "stream": True},
            headers={"Authorization": f"Bearer {key}"},
            timeout=TIMEOUT_S,
        ) as response:
            assert response.status_code == 200
    body = call(stack, key, "/infill", input_prefix="a", input_suffix="b", prompt="").json()
    assert body["content"].endswith("\x01a\x02b\x03")


def test_tokens(stack: Stack, key: str) -> None:
    body = call(stack, key, "/tokenize", content="é", with_pieces=True).json()
    assert body == {"tokens": [{"id": 0xC3, "piece": [0xC3]}, {"id": 0xA9, "piece": [0xA9]}]}
    assert call(stack, key, "/detokenize", tokens=[0xC3, 0xA9]).json() == {"content": "é"}
    chat = {"messages": [{"role": "user", "content": "Hi"}]}
    prompt = call(stack, key, "/apply-template", **chat).json()["prompt"]
    counted = call(stack, key, "/chat/completions/input_tokens", **chat).json()
    assert counted["input_tokens"] == len(prompt)


def test_props_and_slots(stack: Stack, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    props = httpx.get(f"{stack.base_url}/props", headers=headers, timeout=TIMEOUT_S).json()
    assert "im_start" in props["chat_template"]
    slots = httpx.get(f"{stack.base_url}/slots", headers=headers, timeout=TIMEOUT_S).json()
    assert [slot["id"] for slot in slots] == list(range(props["total_slots"]))


@pytest.mark.parametrize("path", ["/completion", "/infill", "/tokenize", "/slots/0", "/props"])
def test_no_route_is_open(stack: Stack, path: str) -> None:
    response = httpx.post(f"{stack.base_url}{path}", json={}, timeout=TIMEOUT_S)
    assert response.status_code == 401
    assert response.json()["error"]["type"] == "authentication_error"


def test_older_completions_of_the_official_client(stack: Stack, key: str) -> None:
    client = opened(OpenAI(base_url=f"{stack.base_url}/v1", api_key=key, max_retries=0))
    whole = client.completions.create(model="mock", prompt="Hi", echo=True, temperature=0)
    assert whole.choices[0].text == "HiHi"
    logprobs = (
        client.completions.create(model="mock", prompt="Hi", logprobs=2, temperature=0)
        .choices[0]
        .logprobs
    )
    assert logprobs is not None
    assert logprobs.tokens == ["H", "i"]
    assert logprobs.text_offset == [0, 1]
    chunks = client.completions.create(model="mock", prompt="a", suffix="b", stream=True)
    assert "".join(c.choices[0].text for c in chunks).endswith("\x01a\x02b\x03")
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="mock", prompt="Hi", echo=True, logprobs=1)
    assert caught.value.param == "echo"
