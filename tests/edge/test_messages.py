"""Chats on the wire: roles, parts, tool history, and every malformed shape."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from inference.protocol.requests import ChatPrompt, Message, ToolCall
from tests.edge.events import answer
from tests.edge.wire import CHAT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
USER = {"role": "user", "content": "Hi"}


async def sent(fake: FakeInference, wire: Wire, *messages: dict[str, Any]) -> ChatPrompt:
    """The prompt that `messages` became."""
    status, body = await wire.post(CHAT, messages=list(messages))
    assert status == 200, body
    prompt = fake.submitted.pop().prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


async def test_p03_developer_is_system(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    prompt = await sent(fake, wire, {"role": "developer", "content": "Be brief."}, USER)
    assert prompt.messages == (Message("system", "Be brief."), Message("user", "Hi"))


async def test_p01_order_is_kept(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    roles = ["system", "user", "assistant", "system", "user"]
    prompt = await sent(fake, wire, *({"role": r, "content": r} for r in roles))
    assert [m.role for m in prompt.messages] == roles


async def test_p04_tool_history(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    result = {"role": "tool", "tool_call_id": "c1", "content": "42"}
    expected = (
        Message("user", "Hi"),
        Message("assistant", "", tool_calls=(ToolCall("c1", "f", '{"a": 1}'),)),
        Message("tool", "42", tool_call_id="c1"),
    )
    for empty in ({"content": None}, {}, {"content": ""}):
        history = {"role": "assistant", "tool_calls": [call], **empty}
        assert (await sent(fake, wire, USER, history, result)).messages == expected


async def test_p04_the_older_form_of_a_call(says: Says, wire: Wire) -> None:
    """What is accepted from its partner, the role `function`, is accepted here."""
    fake = says(*answer("x"))
    call = {"name": "f", "arguments": '{"a": 1}'}
    history = {"role": "assistant", "content": None, "function_call": call}
    result = {"role": "function", "name": "f", "content": "42"}
    assert (await sent(fake, wire, USER, history, result)).messages == (
        Message("user", "Hi"),
        Message("assistant", "", tool_calls=(ToolCall("", "f", '{"a": 1}'),)),
        Message("tool", "42", name="f"),
    )
    newer = {"id": "c1", "function": {"name": "g"}}
    both = {**history, "tool_calls": [newer]}
    assert (await sent(fake, wire, both, USER)).messages[0].tool_calls == (
        ToolCall("c1", "g", "{}"),
    )
    plain = {"role": "assistant", "content": "No.", "function_call": None}
    assert (await sent(fake, wire, plain, USER)).messages[0].tool_calls == ()


@pytest.mark.parametrize(
    ("fields", "reasoning"),
    [
        ({"content": None, "reasoning_content": "Hm."}, "Hm."),
        ({"reasoning_content": "Hm.", "tool_calls": None}, "Hm."),
        ({"content": None, "tool_calls": []}, ""),
    ],
)
async def test_an_answer_that_was_streamed_without_content_comes_back(
    says: Says, wire: Wire, fields: dict[str, Any], reasoning: str
) -> None:
    fake = says(*answer("x"))
    prompt = await sent(fake, wire, USER, {"role": "assistant", **fields}, USER)
    assert prompt.messages[1] == Message("assistant", "", reasoning)


@pytest.mark.parametrize(
    "fields",
    [
        {"content": [{"type": "refusal", "refusal": "I can't."}]},
        {"content": None, "refusal": "I can't."},
        {"content": "I can't.", "refusal": None},
    ],
)
async def test_an_earlier_refusal_is_text(says: Says, wire: Wire, fields: dict[str, Any]) -> None:
    fake = says(*answer("x"))
    prompt = await sent(fake, wire, USER, {"role": "assistant", **fields}, USER)
    assert prompt.messages[1] == Message("assistant", "I can't.")


async def test_parts_are_joined_by_a_blank_line(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    parts = [{"type": "text", "text": "Wh"}, {"type": "text", "text": "ill"}]
    prompt = await sent(fake, wire, {"role": "user", "content": parts})
    assert prompt.messages[0].content == "Wh\n\nill"


async def test_last_assistant_message_is_continued(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    start = {"role": "assistant", "content": "One"}
    assert (await sent(fake, wire, USER, start)).continue_final
    assert not (await sent(fake, wire, USER)).continue_final
    await wire.post(CHAT, messages=[USER, start], continue_final_message=False)
    assert not fake.submitted.pop().prompt.continue_final  # type: ignore[union-attr]


async def test_no_messages_are_accepted(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    assert (await sent(fake, wire)).messages == ()


ASSISTANT = {"role": "assistant", "content": "a"}
DEEP: dict[str, Any] = json.loads('{"a":' * 100 + "1" + "}" * 100)
IMAGE = {"type": "image_url", "image_url": {"url": ""}}


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        # P13
        (None, "messages"),
        ({}, "messages"),
        ("x", "messages"),
        ([None], "messages[0]"),
        (["x"], "messages[0]"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": 5, "content": "x"}], "messages[0].role"),
        ([{"role": "oracle", "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": None}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": {}}], "messages[0].content"),
        ([USER, {"role": "assistant"}], "messages[1].content"),
        ([USER, {"role": "assistant", "reasoning_content": ""}], "messages[1].content"),
        ([{"role": "user", "reasoning_content": "x", "tool_calls": []}], "messages[0].content"),
        ([USER] * 4097, "messages"),
        # P08
        ([USER, {"role": "user", "content": []}], "messages[1].content"),
        (
            [{"role": "user", "content": [{"type": "text", "text": None}]}],
            "messages[0].content[0].text",
        ),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "smell"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": ["text"]}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [None]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [IMAGE]}], "messages[0].content[0]"),
        # tool history
        ([{**ASSISTANT, "tool_calls": {}}], "messages[0].tool_calls"),
        ([{**ASSISTANT, "tool_calls": [5]}], "messages[0].tool_calls[0]"),
        ([{**ASSISTANT, "tool_calls": [{}]}], "messages[0].tool_calls[0].function"),
        (
            [{**ASSISTANT, "tool_calls": [{"function": {"arguments": "{}"}}]}],
            "messages[0].tool_calls[0].function.name",
        ),
        ([USER, ASSISTANT, ASSISTANT], "messages"),
        ([{**ASSISTANT, "function_call": "f"}], "messages[0].function_call"),
        ([{**ASSISTANT, "function_call": {}}], "messages[0].function_call.name"),
        (
            [{**ASSISTANT, "function_call": {"name": "f", "arguments": 5}}],
            "messages[0].function_call.arguments",
        ),
        (
            [{"role": "assistant", "content": [{"type": "refusal"}]}],
            "messages[0].content[0].refusal",
        ),
        (
            [{"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}],
            "messages[0].content[0].type",
        ),
        # deeper than anything can walk
        (
            [{**ASSISTANT, "tool_calls": [{"function": {"name": "f", "arguments": DEEP}}]}],
            "messages[0].tool_calls",
        ),
        ([USER, {"role": "user", "content": [DEEP]}], "messages[1].content"),
    ],
)
async def test_mistakes_are_named(says: Says, wire: Wire, messages: object, param: str) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(CHAT, messages=messages)
    assert status == 400, body
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["param"] == param
    assert not fake.submitted


async def test_p08_the_modality_is_named(says: Says, wire: Wire) -> None:
    says(*answer("x"))
    for kind, name in (("image_url", "image"), ("input_audio", "audio"), ("video_url", "video")):
        _, body = await wire.post(CHAT, messages=[{"role": "user", "content": [{"type": kind}]}])
        assert f"{name} input is not supported" in body["error"]["message"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b'{"messages": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"messages": [{"role": "user", "content": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}]}",
        b'{"messages": [{"role": "user", "content": "x"}], "seed": NaN}',
    ],
)
async def test_p13_bodies_that_are_no_request(says: Says, wire: Wire, data: bytes) -> None:
    fake = says(*answer("x"))
    response = await wire.raw(CHAT, data)
    assert response.status_code == 400
    assert json.loads(response.content)["error"]["type"] == "invalid_request_error"
    assert not fake.submitted


@pytest.mark.parametrize("escape", [rb"\ud83d", rb"\uDE00"])
async def test_half_an_emoji_is_a_replacement_character(
    says: Says, wire: Wire, escape: bytes
) -> None:
    fake = says(*answer("x"))
    message = b'{"role": "user", "content": "cut %b", "name": "%b"}' % (escape, escape)
    response = await wire.raw(CHAT, b'{"messages": [%b], "stop": ["%b"]}' % (message, escape))
    assert response.status_code == 200
    request = fake.submitted[0]
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.messages == (Message("user", "cut \ufffd", name="\ufffd"),)
    assert request.limits.stop == ("\ufffd",)


async def test_p13_ten_megabytes_are_refused_quickly(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    text = "é" * (5 * 1024 * 1024)
    data = json.dumps({"messages": [{"role": "user", "content": text}]}, ensure_ascii=False)
    started_ts = time.monotonic()
    response = await wire.raw(CHAT, data.encode())
    assert response.status_code in (400, 413)
    assert time.monotonic() - started_ts < 10  # generous: it is about work, not about speed
    assert not fake.submitted


async def test_no_text_of_the_caller_in_errors(says: Says, wire: Wire) -> None:
    says(*answer("x"))
    for messages in (
        [{"role": "canary", "content": "x"}],
        [{"role": "user", "content": ["canary"]}],
    ):
        _, body = await wire.post(CHAT, messages=messages, stop={"canary": 1})
        assert "canary" not in json.dumps(body)
