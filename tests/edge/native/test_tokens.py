"""/tokenize, /detokenize and /apply-template: what is asked of the engine, and bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inference.edge.native.schemas import MAX_TOKENS
from inference.protocol.events import Finished, Result
from inference.protocol.requests import (
    ChatPrompt,
    CountRequest,
    DetokenizeRequest,
    Message,
    RenderRequest,
    TokenizeRequest,
)
from inference.protocol.results import (
    CountResult,
    DetokenizeResult,
    RenderResult,
    TokenizeResult,
    UtilityResult,
)
from inference.registry.chat_defaults import ChatDefaults
from inference.text.prompts import MAX_TEXT_BYTES
from tests.edge.wire import HELLO, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
COUNT = "/v1/chat/completions/input_tokens"


def told(says: Says, result: UtilityResult) -> FakeInference:
    """Let every question have this answer."""
    return says(Result(result), Finished("stop"))


async def test_what_is_asked_to_tokenise(says: Says, wire: Wire) -> None:
    fake = told(says, TokenizeResult(()))
    assert await wire.post("/tokenize") == (200, {"tokens": []})
    assert await wire.post("/tokenize", content=None) == (200, {"tokens": []})
    await wire.post("/tokenize", content="a\ud83d", add_special=True, parse_special=False)
    plain, _, asked = fake.submitted
    assert isinstance(plain, TokenizeRequest)
    assert (plain.text, plain.add_special, plain.parse_special) == ("", False, True)
    assert isinstance(asked, TokenizeRequest)
    assert (asked.text, asked.add_special, asked.parse_special) == ("a\ufffd", True, False)
    assert (asked.owner_key, asked.model, asked.with_pieces) == ("user:7", "tiny", False)
    assert asked.deadline_at > asked.submitted_at


async def test_pieces_are_text_or_bytes(says: Says, wire: Wire) -> None:
    fake = told(says, TokenizeResult((1, 2), ("a", (0xC3,))))
    _, body = await wire.post("/tokenize", content="aé", with_pieces=True)
    assert body == {"tokens": [{"id": 1, "piece": "a"}, {"id": 2, "piece": [0xC3]}]}
    assert isinstance(fake.submitted[0], TokenizeRequest)
    assert fake.submitted[0].with_pieces


@pytest.mark.parametrize("text", ["x" * (MAX_TEXT_BYTES + 1), "é" * (MAX_TEXT_BYTES // 2 + 1)])
async def test_too_much_text(says: Says, wire: Wire, text: str) -> None:
    fake = told(says, TokenizeResult(()))
    status, body = await wire.post("/tokenize", content=text)
    assert (status, body["error"]["param"]) == (400, "content")
    assert str(MAX_TEXT_BYTES) in body["error"]["message"]
    assert fake.submitted == []


@pytest.mark.parametrize(
    ("tokens", "param"),
    [
        ([1.5], "tokens[0]"),
        ([1, "a"], "tokens[1]"),
        ([True], "tokens[0]"),
        ([-1], "tokens[0]"),
        ([2**31], "tokens[0]"),
        ("12", "tokens"),
        ([0] * (MAX_TOKENS + 1), "tokens"),
    ],
)
async def test_what_are_no_tokens(says: Says, wire: Wire, tokens: Any, param: str) -> None:
    fake = told(says, DetokenizeResult(""))
    status, body = await wire.post("/detokenize", tokens=tokens)
    assert (status, body["error"]["param"]) == (400, param)
    assert fake.submitted == []


async def test_what_is_asked_to_detokenise(says: Says, wire: Wire) -> None:
    fake = told(says, DetokenizeResult("x"))
    assert await wire.post("/detokenize", tokens=[5, 6]) == (200, {"content": "x"})
    await wire.post("/detokenize")
    first, second = fake.submitted
    assert isinstance(first, DetokenizeRequest)
    assert isinstance(second, DetokenizeRequest)
    assert (first.tokens, second.tokens) == ((5, 6), ())


async def test_the_chat_is_the_one_that_would_be_answered(says: Says, wire: Wire) -> None:
    tools = [{"type": "function", "function": {"name": "f"}}]
    fields: dict[str, Any] = {
        "messages": [*HELLO, {"role": "assistant", "content": "Well"}],
        "tools": tools,
        "chat_template_kwargs": {"mood": "good"},
        "reasoning_effort": "none",
    }
    fake = told(says, RenderResult("x"))
    fake.chat = ChatDefaults("Be brief.", {"tone": "dry"})
    await wire.post("/apply-template", **fields)
    told(says, CountResult(3))
    await wire.post(COUNT, **fields)
    rendered, counted = fake.submitted
    assert isinstance(rendered, RenderRequest)
    assert isinstance(counted, CountRequest)
    assert counted.prompt == rendered.prompt
    prompt = rendered.prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.messages == (
        Message("system", "Be brief."),
        Message("user", "Hello"),
        Message("assistant", "Well"),
    )
    assert prompt.continue_final
    assert json.loads(prompt.template_kwargs_json or "") == {
        "tone": "dry",
        "mood": "good",
        "enable_thinking": False,
    }
    assert json.loads(prompt.tools_json or "")[0]["function"]["name"] == "f"


@pytest.mark.parametrize("path", ["/apply-template", COUNT])
async def test_too_long_chats_are_not_stored(says: Says, wire: Wire, path: str) -> None:
    fake = told(says, CountResult(1))
    messages = [{"role": "user", "content": "x" * (4 * 1024 * 1024 + 1)}]
    status, body = await wire.post(path, messages=messages)
    assert (status, body["error"]["param"]) == (400, "messages")
    assert fake.submitted == []
