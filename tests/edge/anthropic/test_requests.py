"""What a message's request becomes: system text, blocks, tool history, parameters; and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inference.protocol.events import Finished, Result
from inference.protocol.params import Grammar, Limits
from inference.protocol.requests import ChatPrompt, CountRequest, Message, ToolCall
from inference.protocol.results import CountResult
from inference.registry.chat_defaults import ChatDefaults
from tests.edge.anthropic.wire import Client, fields
from tests.edge.events import answer
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
USER = {"role": "user", "content": "Hi"}
START = {"role": "assistant", "content": "One"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}
CALLED = Message("assistant", "", tool_calls=(ToolCall("toolu_1", "f", '{"a": 1}'),))


def block(text: Any, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


async def sent(fake: FakeInference, client: Client, *messages: Any, **body: Any) -> ChatPrompt:
    """The prompt that `messages` became."""
    status, told = await client.ask(messages=list(messages), **body)
    assert status == 200, told
    prompt = fake.submitted.pop().prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


async def test_system_text_and_blocks(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    for system in (
        "Be\n\nbrief.",
        [block("Be", cache_control={"type": "ephemeral"}), block("brief.")],
    ):
        prompt = await sent(fake, client, USER, system=system)
        assert prompt.messages == (Message("system", "Be\n\nbrief."), Message("user", "Hi"))
    for nothing in (None, []):
        assert (await sent(fake, client, USER, system=nothing)).messages == (Message("user", "Hi"),)


async def test_the_models_own_system_prompt_holds_where_none_is_given(
    says: Says, client: Client
) -> None:
    fake = says(*answer("x"))
    fake.chat = ChatDefaults("Be kind.")
    assert (await sent(fake, client, USER)).messages[0] == Message("system", "Be kind.")
    assert (await sent(fake, client, USER, system="")).messages[0] == Message("system", "")


async def test_p01_p03_order_is_kept_and_developer_is_system(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    roles = ["user", "assistant", "system", "user", "assistant", "developer", "user"]
    messages = [{"role": role, "content": [block(role)]} for role in roles]
    prompt = await sent(fake, client, *messages, system="s")
    assert [(m.role, m.content) for m in prompt.messages] == [
        ("system", "s"),
        *(("system" if role == "developer" else role, role) for role in roles),
    ]


async def test_p04_tool_history(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    told = {"role": "user", "content": [block("Go on."), RESULT]}
    prompt = await sent(fake, client, USER, {"role": "assistant", "content": [USE]}, told)
    assert prompt.messages == (
        Message("user", "Hi"),
        CALLED,
        Message("tool", "42", tool_call_id="toolu_1"),  # right behind its call
        Message("user", "Go on."),
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content": "42"}, "42"),
        ({"content": [block("4"), block("2")]}, "4\n\n2"),
        ({"content": None}, ""),
        ({"content": []}, ""),
        ({"content": "no such file", "is_error": True}, "Error:\nno such file"),
        ({"content": "42", "is_error": False}, "42"),
        ({"content": [{"type": "tool_reference", "tool_name": "g"}]}, "g"),
        (
            {
                "content": [
                    {
                        "type": "search_result",
                        "source": "http://x",
                        "title": "T",
                        "content": [block("c")],
                    }
                ]
            },
            "T\nhttp://x\nc",
        ),
    ],
)
async def test_results_are_text(
    says: Says, client: Client, fields: dict[str, Any], text: str
) -> None:
    fake = says(*answer("x"))
    result = {"type": "tool_result", "tool_use_id": "toolu_1", **fields}
    history = [USER, {"role": "assistant", "content": [USE]}]
    prompt = await sent(fake, client, *history, {"role": "user", "content": [result]})
    assert prompt.messages[-1] == Message("tool", text, tool_call_id="toolu_1")


async def test_thoughts_of_before(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "???"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        block("One"),
        USE,
    ]
    prompt = await sent(
        fake,
        client,
        USER,
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [RESULT]},
    )
    assert prompt.messages[1] == Message(
        "assistant", "One", reasoning="Hm.", tool_calls=CALLED.tool_calls
    )


async def test_documents_that_are_text(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    plain = {"type": "text", "media_type": "text/plain", "data": "abc"}
    content = [
        {"type": "document", "source": plain, "title": "A"},
        {"type": "document", "source": {"type": "content", "content": [block("def")]}},
        block("Compare."),
    ]
    prompt = await sent(fake, client, {"role": "user", "content": content})
    assert prompt.messages[0].content == "A\nabc\n\ndef\n\nCompare."


@pytest.mark.parametrize(
    "thinking", [None, {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 2048}]
)
async def test_a_last_answer_is_continued_also_with_thinking(
    says: Says, client: Client, thinking: Any
) -> None:
    fake = says(*answer("x"))
    prompt = await sent(fake, client, USER, START, thinking=thinking)
    assert prompt.continue_final
    assert prompt.messages[-1] == Message("assistant", "One")
    assert not (await sent(fake, client, USER)).continue_final


async def test_several_answers_at_the_end_are_one(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}
    empty = {"role": "assistant", "content": []}
    for history in ([USER, START], []):
        prompt = await sent(fake, client, *history, USER, empty, thought, START, START)
        assert prompt.messages[len(history) :] == (
            Message("user", "Hi"),
            Message("assistant", "One\n\nOne", "Hm."),
        )
        assert prompt.continue_final


async def test_an_answer_without_blocks_is_empty(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    prompt = await sent(fake, client, USER, {"role": "assistant", "content": []}, USER)
    assert prompt.messages[1] == Message("assistant", "")


async def test_parameters(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    await client.ask(
        max_tokens=10**12,
        stop_sequences=["END", "", "END"],
        temperature=0.5,
        top_p=0.9,
        top_k=3,
        metadata={"user_id": "u"},
        service_tier="auto",
        cache_control={"type": "ephemeral"},
        something_new=[1],
    )
    request = fake.submitted.pop()
    assert request.limits == Limits(2**31 - 1, ("END",))
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 3)
    assert sampling.grammar is None


async def test_p06_null_is_absent(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    names = ("temperature", "top_p", "top_k", "stop_sequences", "tools", "tool_choice", "system")
    names = (*names, "thinking", "output_config", "output_format", "metadata", "model", "stream")
    await client.ask(**dict.fromkeys(names))
    await client.ask()
    first, second = fake.submitted
    assert (first.prompt, first.sampling, first.limits) == (
        second.prompt,
        second.sampling,
        second.limits,
    )


@pytest.mark.parametrize(
    ("thinking", "config", "variables"),
    [
        (None, None, None),
        ({"type": "enabled", "budget_tokens": 1024}, None, {"enable_thinking": True}),
        ({"type": "adaptive"}, None, {"enable_thinking": True}),
        ({"type": "between_tools"}, None, {"enable_thinking": True}),
        ({"type": "disabled"}, None, {"enable_thinking": False}),
        (None, {"effort": "low"}, {"reasoning_effort": "low"}),
        (None, {"effort": "max"}, {"reasoning_effort": "high"}),
        (None, {"effort": None}, None),
    ],
)
async def test_thinking_and_effort(
    says: Says, client: Client, thinking: Any, config: Any, variables: Any
) -> None:
    fake = says(*answer("x"))
    prompt = await sent(fake, client, USER, thinking=thinking, output_config=config)
    told = prompt.template_kwargs_json
    assert (None if told is None else json.loads(told)) == variables


@pytest.mark.parametrize(
    ("thinking", "budget"),
    [
        ({"type": "enabled", "budget_tokens": 2048}, 2048),
        ({"type": "enabled", "budget_tokens": 0}, 0),
        ({"type": "adaptive"}, None),
        ({"type": "disabled"}, None),
        (None, None),
    ],
)
async def test_thoughts_have_a_budget(
    says: Says, client: Client, thinking: Any, budget: int | None
) -> None:
    fake = says(*answer("x"))
    await client.ask(thinking=thinking)
    assert fake.submitted.pop().answer.reasoning_budget == budget


async def test_variables_of_the_template_win(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    given = {"enable_thinking": False, "x": 1}
    thinking = {"type": "adaptive"}
    prompt = await sent(fake, client, USER, thinking=thinking, chat_template_kwargs=given)
    assert json.loads(prompt.template_kwargs_json or "") == given


@pytest.mark.parametrize("place", ["output_config", "output_format"])
async def test_an_answer_in_a_form(says: Says, client: Client, place: str) -> None:
    fake = says(*answer("x"))
    form = {"type": "json_schema", "schema": {"type": "object"}}
    param = f"{place}.schema" if place == "output_format" else f"{place}.format.schema"
    await client.ask(**{place: form if place == "output_format" else {"format": form}})
    grammar = Grammar('{"type": "object"}', kind="json_schema", param=param)
    assert fake.submitted.pop().sampling.grammar == grammar


async def test_a_prompt_is_counted(says: Says, client: Client) -> None:
    fake = says(Result(CountResult(17)), Finished("stop"))
    tools = [{"name": "f", "input_schema": {}}]
    body = {"system": "Be brief.", "tools": tools, "thinking": {"type": "adaptive"}}
    assert await client.count(**body) == (200, {"input_tokens": 17})
    request: Any = fake.submitted.pop()
    assert isinstance(request, CountRequest)
    says(*answer("x"))
    await client.ask(**body)
    asked = fake.submitted.pop()
    assert (asked.prompt, asked.account) == (request.prompt, request.account)
    assert request.account


DEEP: dict[str, Any] = json.loads('{"a":' * 70 + "1" + "}" * 70)
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf"}}
FORM = {"type": "json_schema", "schema": {}}


def user(*blocks: Any) -> dict[str, Any]:
    return {"messages": [USER, {"role": "user", "content": list(blocks)}]}


def said(*blocks: Any) -> dict[str, Any]:
    return {"messages": [USER, {"role": "assistant", "content": list(blocks)}, USER]}


MISTAKES: list[tuple[dict[str, Any], str]] = [
    # P07
    ({"max_tokens": None}, "max_tokens"),
    ({"max_tokens": -1}, "max_tokens"),
    ({"max_tokens": 1.5}, "max_tokens"),
    ({"max_tokens": "10"}, "max_tokens"),
    ({"max_tokens": True}, "max_tokens"),
    # P08
    (user(), "messages[1].content"),
    (user(block(None)), "messages[1].content[0].text"),
    (user(block("x"), IMAGE), "messages[1].content[1]"),
    (user(PDF), "messages[1].content[0].source"),
    (user({"type": "document"}), "messages[1].content[0].source"),
    (user({"type": "video"}), "messages[1].content[0].type"),
    (user({"text": "x"}), "messages[1].content[0].type"),
    (user("x"), "messages[1].content[0]"),
    (user({**RESULT, "content": [IMAGE]}), "messages[1].content[0].content[0]"),
    (user({**RESULT, "content": 5}), "messages[1].content[0].content"),
    (user({**RESULT, "is_error": "yes"}), "messages[1].content[0].is_error"),
    (user({"type": "tool_result"}), "messages[1].content[0].tool_use_id"),
    (user(USE), "messages[1].content[0].type"),
    (user(*[block("x")] * 1025), "messages[1].content"),
    (said(RESULT), "messages[1].content[0].type"),
    (said({**USE, "id": None}), "messages[1].content[0].id"),
    (said({**USE, "name": 5}), "messages[1].content[0].name"),
    (said({**USE, "input": "{}"}), "messages[1].content[0].input"),
    (said({"type": "thinking"}), "messages[1].content[0].thinking"),
    # P13
    ({"messages": None}, "messages"),
    ({"messages": {}}, "messages"),
    ({"messages": "x"}, "messages"),
    ({"messages": [None]}, "messages[0]"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [DEEP]}]}, "messages[0].content"),
    ({"messages": [USER] * 4097}, "messages"),
    ({"messages": [USER, {"role": "assistant", "content": [USE]}]}, "messages"),
    ({"messages": [{"role": "system", "content": [IMAGE]}]}, "messages[0].content[0]"),
    ({"system": 5}, "system"),
    ({"system": [block(5)]}, "system[0].text"),
    ({"stop_sequences": ["x"] * 17}, "stop_sequences"),
    ({"stop_sequences": [5]}, "stop_sequences[0]"),
    ({"stop_sequences": ["x" * 257]}, "stop_sequences[0]"),
    ({"temperature": "hot"}, "temperature"),
    ({"top_k": 1.5}, "top_k"),
    ({"stream": "yes"}, "stream"),
    ({"thinking": True}, "thinking"),
    ({"thinking": {"type": "hard"}}, "thinking.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "adaptive", "display": "big"}}, "thinking.display"),
    ({"output_config": 5}, "output_config"),
    ({"output_config": {"effort": "huge"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type"),
    ({"output_format": {"type": "json_schema", "schema": 5}}, "output_format.schema"),
    ({"output_format": FORM, "output_config": {"format": FORM}}, "output_format"),
    ({"chat_template_kwargs": {"enable_thinking": "no"}}, "chat_template_kwargs.enable_thinking"),
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("given", "param"), MISTAKES)
async def test_mistakes_are_named(
    says: Says, client: Client, given: dict[str, Any], param: str, stream: bool
) -> None:
    fake = says(*answer("x"))
    status, body = await client.ask(**{"stream": stream, **given})
    assert (status, body["error"]["type"]) == (400, "invalid_request_error")
    assert body["error"]["message"].startswith(f"{param}: ")
    assert not fake.submitted


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"{", "JSON"),
        (b"[]", "object"),
        (b'{"messages": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "JSON"),
    ],
)
async def test_p13_bodies_that_are_none(
    fake: FakeInference, client: Client, data: bytes, word: str
) -> None:
    response = await client.response(data)
    body = json.loads(response.content)
    assert (response.status_code, body["error"]["type"]) == (400, "invalid_request_error")
    assert word in body["error"]["message"]


async def test_p13_a_body_that_is_too_large(
    fake: FakeInference, client: Client, settings: Any
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    content = [{"role": "user", "content": "x" * 2000}]
    response = await client.response(fields(messages=content))
    assert response.status_code == 413
    assert json.loads(response.content)["error"]["type"] == "request_too_large"


async def test_p08_an_image_is_refused_by_name(fake: FakeInference, client: Client) -> None:
    _, body = await client.ask(**user(IMAGE))
    assert "image" in body["error"]["message"]
