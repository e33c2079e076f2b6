"""What a response asks of the engine: items, tools, forms, limits, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inference.edge import replies
from inference.protocol.events import Failed
from inference.protocol.requests import AnswerParams, ChatPrompt, GenerateRequest, Message, ToolCall
from inference.registry.chat_defaults import ChatDefaults
from tests.edge.events import answer
from tests.edge.responses.events import post, stream
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
CODEX = Path(__file__).with_name("codex_request.json")
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "Tells it.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": True,
}
HELLO = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city":"X"}'}
CALLED = ToolCall("c1", "weather", '{"city":"X"}')


@pytest.fixture
def ask(says: Says, wire: Wire) -> Callable[..., Any]:
    """Sends a body; the request that came of it, and the response."""

    async def send(**body: Any) -> tuple[GenerateRequest, dict[str, Any]]:
        fake = says(*answer("ok"))
        status, response = await post(wire, store=False, **body)
        assert status == 200, response
        return fake.submitted[-1], response

    return send


async def test_times_of_tokens_are_not_asked_for(ask: Any) -> None:
    """Nothing tells them, and logs would be larger."""
    request, _ = await ask(timings_per_token=True)
    assert not request.sampling.timings_per_token


@pytest.fixture
def refused(says: Says, wire: Wire) -> Callable[..., Any]:
    """Sends a body that is a mistake; the error."""

    async def send(**body: Any) -> dict[str, Any]:
        fake = says(*answer("no"))
        fake.submitted.clear()
        status, response = await post(wire, **{"store": False, **body})
        assert status == 400, response
        assert fake.submitted == []
        error: dict[str, Any] = response["error"]
        return error

    return send


def messages(request: GenerateRequest) -> tuple[Message, ...]:
    assert isinstance(request.prompt, ChatPrompt)
    return request.prompt.messages


async def test_a_text_is_one_message_of_the_user(ask: Any) -> None:
    request, response = await ask(input="Hi")
    assert messages(request) == (Message("user", "Hi"),)
    assert not request.keep
    assert response["store"] is False


async def test_instructions_come_first(ask: Any) -> None:
    request, response = await ask(instructions="Be brief.")
    assert messages(request)[0] == Message("system", "Be brief.")
    assert response["instructions"] == "Be brief."


async def test_the_models_own_system_prompt_only_without_instructions(
    ask: Any, fake: FakeInference
) -> None:
    fake.chat = ChatDefaults("You are Tiny.")
    assert messages((await ask())[0])[0] == Message("system", "You are Tiny.")
    assert messages((await ask(instructions="No."))[0])[0] == Message("system", "No.")


async def test_p01_p03_a_developer_in_between_stays_in_its_place(ask: Any) -> None:
    items = [
        {"role": "developer", "content": "A"},
        {"role": "user", "content": "B"},
        {"role": "assistant", "content": "C"},
        {"role": "system", "content": [{"type": "input_text", "text": "D"}]},
        {"role": "user", "content": "E"},
    ]
    request, _ = await ask(input=items)
    told = [(message.role, message.content) for message in messages(request)]
    assert told == [
        ("system", "A"),
        ("user", "B"),
        ("assistant", "C"),
        ("system", "D"),
        ("user", "E"),
    ]


async def test_thoughts_text_and_calls_are_one_answer(ask: Any) -> None:
    text = {"type": "output_text", "text": "I look.", "annotations": []}
    items = [
        HELLO,
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "short"}],
            "content": [{"type": "reasoning_text", "text": "Hmm."}],
        },
        {"type": "message", "role": "assistant", "content": [text]},
        CALL,
        {**CALL, "call_id": "c2"},
        {"type": "function_call_output", "call_id": "c1", "output": "rain"},
        {"type": "function_call_output", "call_id": "c2", "output": []},
    ]
    request, _ = await ask(input=items)
    assert messages(request) == (
        Message("user", "Hi"),
        Message("assistant", "I look.", "Hmm.", (CALLED, ToolCall("c2", *_rest(CALLED)))),
        Message("tool", "rain", tool_call_id="c1"),
        Message("tool", "", tool_call_id="c2"),
    )


def _rest(call: ToolCall) -> tuple[str, str]:
    return call.name, call.arguments


async def test_p04_an_answer_that_is_only_calls(ask: Any) -> None:
    items = [HELLO, {"role": "assistant", "content": None}, CALL]
    request, _ = await ask(input=items)
    assert messages(request)[1] == Message("assistant", "", tool_calls=(CALLED,))


async def test_s09_outputs_are_text_or_parts(ask: Any) -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    items = [HELLO, CALL, {"type": "function_call_output", "call_id": "c1", "output": parts}]
    request, _ = await ask(input=items)
    assert messages(request)[-1] == Message("tool", "a\n\nb", tool_call_id="c1")


async def test_s09_tools_of_servers_are_left_out_with_a_note(ask: Any) -> None:
    tools = [
        {"type": "web_search"},
        WEATHER,
        {"type": "image_generation"},
        {"type": "mcp", "server_label": "x", "server_url": "https://example.org"},
        {"type": "local_shell"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "file_search", "vector_store_ids": []},
    ]
    request, response = await ask(tools=tools)
    assert isinstance(request.prompt, ChatPrompt)
    (offered,) = json.loads(request.prompt.tools_json or "")
    assert (offered["function"]["name"], offered["function"]["strict"]) == ("weather", True)
    assert [tool["name"] for tool in response["tools"]] == ["weather"]
    assert len(response["warnings"]) == len(tools) - 1
    assert response["warnings"][0].startswith("tools[0]: web_search")


async def test_s01_a_forced_call(ask: Any, refused: Any) -> None:
    clock = {"type": "function", "name": "clock"}
    request, _ = await ask(tools=[WEATHER, clock], tool_choice="required")
    assert (request.answer.tool_choice, request.answer.tool_name) == ("required", "")
    named = {"type": "function", "name": "clock"}
    request, response = await ask(tools=[WEATHER, clock], tool_choice=named)
    assert (request.answer.tool_choice, request.answer.tool_name) == ("required", "clock")
    assert response["tool_choice"] == named
    error = await refused(tools=[{"type": "web_search"}], tool_choice="required")
    assert error["param"] == "tool_choice"
    error = await refused(tools=[WEATHER], tool_choice={"type": "web_search_preview"})
    assert error["param"] == "tool_choice.type"
    error = await refused(tools=[WEATHER], tool_choice={"type": "function", "name": "clock"})
    assert error["param"] == "tool_choice.name"


async def test_only_allowed_tools_are_shown(ask: Any) -> None:
    clock = {"type": "function", "name": "clock"}
    choice = {"type": "allowed_tools", "mode": "required", "tools": [clock]}
    request, response = await ask(tools=[WEATHER, clock], tool_choice=choice)
    assert isinstance(request.prompt, ChatPrompt)
    names = [t["function"]["name"] for t in json.loads(request.prompt.tools_json or "")]
    assert names == ["clock"]
    assert request.answer.tool_choice == "required"
    assert len(response["tools"]) == 2


async def test_the_schema_of_an_allowed_tool_is_named_as_the_request_has_it(
    says: Says, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    param = "tools[0].function.parameters.uniqueItems"
    says(Failed("invalid_request", "is not supported", param=param))
    choice = {"type": "allowed_tools", "tools": [{"type": "function", "name": "weather"}]}
    clock = {"type": "function", "name": "clock"}
    fields = {"tools": [clock, WEATHER], "tool_choice": choice, "store": False}
    status, body = await post(wire, **fields)
    assert (status, body["error"]["param"]) == (400, "tools[1].parameters.uniqueItems")
    monkeypatch.setattr(replies, "FIRST_EVENT_WAIT_S", 0.0)  # nobody knows in time
    late = await stream(wire, **fields)
    assert late.response["status"] == "failed"
    assert late.response["error"]["message"] == "tools[1].parameters.uniqueItems: is not supported"


async def test_no_tools_and_no_parallel_calls(ask: Any) -> None:
    request, _ = await ask(tools=[WEATHER], tool_choice="none", parallel_tool_calls=False)
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.tools_json is None
    assert not request.answer.parallel_tool_calls


async def test_forms(ask: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    request, response = await ask(text={"format": form, "verbosity": "low"})
    grammar = request.sampling.grammar
    assert grammar is not None
    assert (grammar.kind, grammar.param) == ("json_schema", "text.format.schema")
    assert json.loads(grammar.text) == schema
    assert response["text"]["format"] == form
    request, _ = await ask(text={"format": {"type": "json_object"}})
    assert request.sampling.grammar is not None
    request, _ = await ask(text={"format": {"type": "text"}})
    assert request.sampling.grammar is None


async def test_p06_null_is_absent(ask: Any) -> None:
    names = (
        *("temperature", "top_p", "max_output_tokens", "tools", "tool_choice", "stop", "seed"),
        *("instructions", "previous_response_id", "reasoning", "text", "metadata", "include"),
        *("truncation", "stream_options", "top_logprobs", "parallel_tool_calls", "background"),
    )
    request, response = await ask(**dict.fromkeys(names))
    assert request.sampling.temperature is None
    assert request.limits.max_tokens is None
    assert response["tools"] == []
    assert response["metadata"] == {}


async def test_p07_lengths(ask: Any, refused: Any) -> None:
    for given, limit in ((0, 0), (-1, None), (3, 3)):
        request, _ = await ask(max_output_tokens=given)
        assert request.limits.max_tokens == limit
    request, _ = await ask(max_output_tokens=10**12)
    assert (request.limits.max_tokens or 0) > 10**8
    for wrong in (1.5, "10", True, -2):
        assert (await refused(max_output_tokens=wrong))["param"] == "max_output_tokens"


async def test_sampling_and_reasoning(ask: Any) -> None:
    request, response = await ask(
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop=["x"],
        top_k=3,
        reasoning={"effort": "low"},
        metadata={"a": "b"},
        user="u",
        safety_identifier="s",
        prompt_cache_key="k",
        service_tier="auto",
    )
    assert (request.sampling.temperature, request.sampling.top_p) == (0.5, 0.9)
    assert (request.sampling.top_k, request.seed, request.limits.stop) == (3, 7, ("x",))
    assert isinstance(request.prompt, ChatPrompt)
    assert json.loads(request.prompt.template_kwargs_json or "") == {"reasoning_effort": "low"}
    assert (response["temperature"], response["metadata"]) == (0.5, {"a": "b"})
    request, _ = await ask(reasoning={"effort": "none"})
    assert isinstance(request.prompt, ChatPrompt)
    assert json.loads(request.prompt.template_kwargs_json or "") == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({"reasoning_budget_tokens": -1}, AnswerParams()),
        ({"reasoning_budget_tokens": 0}, AnswerParams(reasoning_budget=0)),
        (
            {"thinking_budget_tokens": 7, "reasoning_budget_message": "Stop"},
            AnswerParams(reasoning_budget=7, reasoning_message="Stop"),
        ),
        ({"reasoning_control": True}, AnswerParams(reasoning_control=True)),
    ],
)
async def test_reasoning_has_a_budget_as_in_chats(
    given: dict[str, Any], asked: AnswerParams, ask: Any
) -> None:
    request, _ = await ask(**given)
    assert request.answer == asked


async def test_reasoning_is_ended_by_the_id_of_the_response(
    ask: Any, wire: Wire, fake: FakeInference
) -> None:
    _, response = await ask(reasoning_control=True)
    body = json.dumps({"id": response["id"], "action": "reasoning_end"}).encode()
    told = await wire.raw("/v1/chat/completions/control", body)
    assert json.loads(told.content) == {"success": True}
    assert fake.reasoning_ended == [(response["id"], "user:7")]


async def test_thoughts_in_several_items_are_joined(ask: Any) -> None:
    parts = [[{"type": "reasoning_text", "text": text}] for text in ("a", "b", "c")]
    thoughts = [{"type": "reasoning", "content": content} for content in parts]
    items = [HELLO, thoughts[0], {"type": "reasoning", "summary": []}, *thoughts[1:], CALL]
    request, _ = await ask(input=[*items, thoughts[0], {"role": "assistant", "content": "d"}])
    assert messages(request)[1:] == (
        Message("assistant", "", "a\n\nb\n\nc", (CALLED,)),
        Message("assistant", "d", "a"),
    )


async def test_nothing_is_cut(ask: Any) -> None:
    _, response = await ask(truncation="auto")
    assert response["truncation"] == "disabled"
    assert response["warnings"][0].startswith("truncation")


TEXT = {"type": "input_text", "text": "x"}
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"input": None}, "input"),
    ({"input": {}}, "input"),
    ({"input": [None]}, "input[0]"),
    ({"input": ["x"]}, "input[0]"),
    ({"input": [{}]}, "input[0].type"),
    ({"input": [{"role": "king", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user"}]}, "input[0]"),
    ({"input": [{"role": "user", "content": []}]}, "input[0].content"),
    (
        {"input": [{"role": "user", "content": [{**TEXT, "text": None}]}]},
        "input[0].content[0].text",
    ),
    ({"input": [{"role": "user", "content": [{"type": "x"}]}]}, "input[0].content[0].type"),
    ({"input": [{**CALL, "name": None}]}, "input[0].name"),
    ({"input": [{**CALL, "arguments": 7}]}, "input[0].arguments"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].id"),
    ({"tools": "x"}, "tools"),
    ({"tools": [7]}, "tools[0]"),
    ({"tools": [{"name": "x"}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].name"),
    ({"tools": [WEATHER, WEATHER]}, "tools[1].name"),
    ({"tools": [{**WEATHER, "parameters": []}]}, "tools[0].parameters"),
    ({"tool_choice": "maybe"}, "tool_choice"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_object"}}, "grammar": 'root ::= "x"'}, "text.format"),
    ({"include": ["everything"]}, "include[0]"),
    ({"truncation": "some"}, "truncation"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": {str(n): "x" for n in range(17)}}, "metadata"),
    ({"background": True}, "background"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"n": 2}, "n"),
    ({"functions": [{}]}, "functions"),
    ({"reasoning_budget_tokens": -2}, "reasoning_budget_tokens"),
    ({"reasoning_control": 1}, "reasoning_control"),
    ({"top_logprobs": 21}, "top_logprobs"),
]


@pytest.mark.parametrize(("body", "param"), MISTAKES, ids=[str(n) for n in range(len(MISTAKES))])
async def test_p08_p13_mistakes_name_their_field(
    body: dict[str, Any], param: str, refused: Any
) -> None:
    assert (await refused(**body))["param"] == param


@pytest.mark.parametrize(
    ("kind", "word"), [("input_image", "image"), ("input_file", "file"), ("input_audio", "audio")]
)
async def test_p08_what_is_no_text_is_refused_by_its_modality(
    kind: str, word: str, refused: Any
) -> None:
    parts = [TEXT, {"type": kind, "image_url": "", "file_data": ""}]
    error = await refused(input=[{"role": "user", "content": parts}])
    assert error["param"] == "input[0].content[1]"
    assert word in error["message"]


async def test_what_codex_sends(says: Says, wire: Wire) -> None:
    """A request in the form of Codex CLI's, in the middle of a session."""
    fake = says(*answer("Done."))
    body = json.loads(CODEX.read_text())
    got = await stream(wire, **body)
    assert got.names[-1] == "response.completed"
    (request,) = fake.submitted
    told = [(m.role, bool(m.content), len(m.tool_calls)) for m in messages(request)]
    assert told == [
        ("system", True, 0),
        ("system", True, 0),
        ("user", True, 0),
        ("user", True, 0),
        ("assistant", False, 1),
        ("tool", True, 0),
        ("assistant", True, 2),
        ("tool", True, 0),
        ("tool", True, 0),
        ("user", True, 0),
    ]
    assert isinstance(request.prompt, ChatPrompt)
    names = [t["function"]["name"] for t in json.loads(request.prompt.tools_json or "")]
    assert names == ["exec_command", "update_plan", "view_image", "apply_patch"]
    kinds = {note.split(": ")[0] for note in got.response["warnings"]}
    assert kinds == {"tools[4]", "tools[5]", "input[10]"}
    assert not request.answer.parallel_tool_calls
