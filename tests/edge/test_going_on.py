"""Going on inside the reasoning of an answer that was begun: on the wire of a chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inference.protocol.events import Delta
from inference.protocol.requests import ChatPrompt, Message
from tests.edge.events import STARTED, finished
from tests.edge.wire import CHAT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
USER = {"role": "user", "content": "Hello"}
THOUGHT = {"role": "assistant", "reasoning_content": "Let me see. "}
GO_ON = {"messages": [USER, THOUGHT], "continue_final_message": "reasoning_content"}
ANSWER = (STARTED, Delta(" So", (1,), kind="reasoning"), Delta("Hi", (2,)), finished())


def prompt_of(fake: FakeInference) -> ChatPrompt:
    prompt = fake.submitted[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


async def test_reasoning_is_gone_on_with(says: Says, wire: Wire) -> None:
    fake = says(*ANSWER)
    for wanted in ("reasoning_content", True):
        status, body = await wire.post(CHAT, **GO_ON | {"continue_final_message": wanted})
        assert status == 200
        message = body["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == (" So", "Hi")
        prompt = prompt_of(fake)
        assert (prompt.continue_final, prompt.continue_reasoning) == (True, True)
        assert prompt.continue_either == (wanted is True)
        assert prompt.messages[-1] == Message("assistant", reasoning="Let me see. ")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_echo_repeats_its_start(says: Says, wire: Wire, stream: bool) -> None:
    says(*ANSWER)
    if stream:
        deltas = [
            c["choices"][0]["delta"] for c in (await wire.stream(CHAT, echo=True, **GO_ON)).data
        ]
        thoughts = [delta.get("reasoning_content") or "" for delta in deltas]
        texts = [delta.get("content") or "" for delta in deltas]
        found = "".join(thoughts), "".join(texts)
    else:
        _, body = await wire.post(CHAT, echo=True, **GO_ON)
        message = body["choices"][0]["message"]
        found = message["reasoning_content"], message["content"]
    assert found == ("Let me see. So", "Hi")


async def test_thoughts_that_are_content_are_repeated_as_such(says: Says, wire: Wire) -> None:
    says(STARTED, Delta(" So</think>Hi", (1,)), finished())
    _, body = await wire.post(CHAT, echo=True, reasoning_format="none", **GO_ON)
    message = {"role": "assistant", "content": "Let me see. So</think>Hi"}
    assert body["choices"][0]["message"] == message


@pytest.mark.parametrize(
    "fields",
    [
        {"continue_final_message": "content"},
        {"continue_final_message": None},
        {"messages": [USER, THOUGHT | {"content": "So"}], "continue_final_message": True},
        {"reasoning_effort": "none", "continue_final_message": True},
        {"chat_template_kwargs": {"enable_thinking": False}, "continue_final_message": True},
    ],
)
async def test_content_is_gone_on_with_otherwise(
    says: Says, wire: Wire, fields: dict[str, Any]
) -> None:
    fake = says(*ANSWER)
    status, _ = await wire.post(CHAT, **GO_ON | fields)
    assert status == 200
    prompt = prompt_of(fake)
    assert (prompt.continue_final, prompt.continue_reasoning) == (True, False)
    assert not prompt.continue_either


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [USER, THOUGHT | {"content": "So"}]}, "continue_final_message"),
        ({"messages": [USER, {"role": "assistant", "content": ""}]}, "continue_final_message"),
        (
            {"messages": [USER, {"role": "assistant", "reasoning_content": " \n"}]},
            "continue_final_message",
        ),
        ({"messages": [USER]}, "continue_final_message"),
        ({"continue_final_message": "reasoning"}, "continue_final_message"),
        ({"continue_final_message": ["content"]}, "continue_final_message"),
        ({"add_generation_prompt": True}, "continue_final_message"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "continue_final_message"),
        ({"reasoning_effort": "none"}, "continue_final_message"),
    ],
)
async def test_what_can_not_be_gone_on_with(
    says: Says, wire: Wire, fields: dict[str, Any], param: str
) -> None:
    fake = says(*ANSWER)
    status, body = await wire.post(CHAT, **GO_ON | fields)
    assert (status, body["error"]["param"]) == (400, param)
    assert not fake.submitted
