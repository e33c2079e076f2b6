"""Every template that llama.cpp carries takes whatever chats people send, or says no: never a fault
of ours, and never without end."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.engine.contract import SequenceRequest
from inference.engine.mock_tokenizer import MockTokenizer
from inference.engine.pipeline import Pipeline
from inference.protocol.events import Delta
from inference.protocol.params import Grammar, SamplingParams
from inference.protocol.requests import (
    AnswerParams,
    ChatPrompt,
    GenerateRequest,
    Message,
    ToolCall,
)
from inference.text.answer.detect import answer_format
from inference.text.chat_renderer import ChatRenderer, InProcessRenderer
from inference.text.prompts import TextPipeline
from llamaweb.lib.errors import InvalidError
from tests.sdist import chat_template
from tests.text.answer.test_detect import TEMPLATES

NUM_CHATS = 12  # for each template
NOW_AT = 1_795_996_800.0
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Of a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "get_time", "parameters": {"type": "object", "properties": {}}},
    },
]
texts = st.text(max_size=20) | st.sampled_from(
    [
        "Hello, how are you?",
        "<think>\nnot really\n</think>",
        '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>',
        "{{ messages }} {% for %} <|im_end|> [INST]",
        "\ud83d and 漢 😺\x00\r\n",
    ]
)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(
    ToolCall,
    st.sampled_from(["call_1", "123456789", "", "functions.get_time:0"]),
    st.sampled_from(["get_weather", "get_time", "gone"]),
    st.dictionaries(texts, plain, max_size=3).map(lambda value: json.dumps(value)),
)
assistants = st.builds(
    Message,
    st.just("assistant"),
    texts,
    reasoning=st.just("") | texts,
    tool_calls=st.lists(calls, max_size=2).map(tuple),
)
others = st.builds(
    Message,
    st.sampled_from(["system", "user", "user", "tool"]),
    texts,
    tool_call_id=st.none() | st.just("call_1"),
    name=st.none() | st.just("get_time"),
)
answers = st.builds(
    AnswerParams,
    splits_reasoning=st.booleans(),
    tool_choice=st.sampled_from(["auto", "required"]),
    tool_name=st.sampled_from(["", "get_time"]),
    parallel_tool_calls=st.booleans(),
    reasoning_budget=st.none() | st.integers(0, 3),
    reasoning_message=st.just("") | texts,
    reasoning_control=st.booleans(),
)
# Those that refuse calls with their results, whatever their form.
CHOOSY = {"CohereForAI-c4ai-command-r-plus-tool_use", "fireworks-ai-llama-3-firefunction-v2"}
FORM = Grammar('{"type": "object"}', kind="json_schema", param="json_schema")


@st.composite
def requests(draw: st.DrawFn) -> GenerateRequest:
    messages = draw(st.lists(assistants | others, max_size=6))
    tools = draw(st.sampled_from([None, TOOLS, TOOLS[1:]]))
    kwargs = draw(st.none() | st.fixed_dictionaries({"enable_thinking": st.booleans()}))
    answer, grammar = draw(answers), draw(st.sampled_from([None, FORM]))
    if tools is None:
        answer = AnswerParams(answer.splits_reasoning, reasoning_budget=answer.reasoning_budget)
    if answer.tool_choice == "required":
        grammar = None  # the edge refuses both
    continues = draw(st.booleans())
    prompt = ChatPrompt(
        tuple(messages),
        tools_json=json.dumps(tools) if tools else None,
        template_kwargs_json=json.dumps(kwargs) if kwargs else None,
        continue_final=continues,
        continue_reasoning=continues and draw(st.booleans()),
    )
    return GenerateRequest(
        "g",
        "m",
        owner_key="user:1",
        cache_scope="user:1",
        prompt=prompt,
        seed=1,
        submitted_at=NOW_AT,
        deadline_at=NOW_AT + 60,
        sampling=SamplingParams(grammar=grammar),
        answer=answer,
    )


@functools.cache
def pipeline_of(name: str) -> Pipeline:
    template = chat_template(name)
    form = answer_format(template)
    renderer = ChatRenderer(InProcessRenderer(template, "<s>", "</s>"), form)
    return Pipeline(TextPipeline(MockTokenizer(), renderer), renderer, form)


@pytest.mark.parametrize("name", TEMPLATES)
@settings(
    max_examples=NUM_CHATS, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
@given(request=requests())
def test_a_chat_is_prepared_or_refused(name: str, request: GenerateRequest) -> None:
    pipeline = pipeline_of(name)
    refusal: InvalidError | None = None
    try:
        prepared = pipeline.prepare(request)
    except InvalidError as error:
        refusal = error
    if refusal is not None:
        assert refusal.message
        assert refusal.param
        return
    assert isinstance(prepared, SequenceRequest)
    assert prepared.tokens
    reader = pipeline.reader(request, prepared)
    assert reader is None or not prepared.opened.strip() or prepared.opened in _prompt(prepared)


def _prompt(prepared: SequenceRequest) -> str:
    return bytes(prepared.tokens).decode("utf-8", "replace")


@pytest.mark.parametrize("name", sorted(TEMPLATES.keys() - CHOOSY))
def test_an_ordinary_chat_is_no_trouble(name: str) -> None:
    """With tools, a call and its result: what any agent sends."""
    call: Any = ToolCall("call_abcde", "get_weather", '{"city": "Zürich", "days": 2}')
    chat = (
        Message("system", "Be brief."),
        Message("user", "How is the weather?"),
        Message("assistant", "", reasoning="Look it up.", tool_calls=(call,)),
        Message("tool", "Rain", tool_call_id="call_abcde", name="get_weather"),
        Message("assistant", "It rains."),
        Message("user", "And tomorrow?"),
    )
    request = GenerateRequest(
        "g",
        "m",
        owner_key="user:1",
        cache_scope="user:1",
        prompt=ChatPrompt(chat, tools_json=json.dumps(TOOLS)),
        seed=1,
        submitted_at=NOW_AT,
        deadline_at=NOW_AT + 60,
    )
    text = _prompt(pipeline_of(name).prepare(request))
    for word in ("get_weather", "Zürich", "Rain", "And tomorrow?"):
        assert word in text or json.dumps(word)[1:-1] in text


@pytest.mark.parametrize(
    "name", [name for name in TEMPLATES if answer_format(chat_template(name)).reasoning_start]
)
def test_reasoning_that_was_begun_is_gone_on_with(name: str) -> None:
    """Where it broke off, once, and inside the markup that the model's own answers have."""
    begun = "First I look, then"
    chat = (Message("user", "How is the weather?"), Message("assistant", reasoning=f"{begun} \n"))
    request = GenerateRequest(
        "g",
        "m",
        owner_key="user:1",
        cache_scope="user:1",
        prompt=ChatPrompt(chat, continue_final=True, continue_reasoning=True),
        seed=1,
        submitted_at=NOW_AT,
        deadline_at=NOW_AT + 60,
    )
    pipeline = pipeline_of(name)
    form = answer_format(chat_template(name))
    prepared = pipeline.prepare(request)
    prompt = _prompt(prepared)
    assert prompt.endswith(begun)
    assert prompt.count(begun) == 1
    assert prompt.removesuffix(begun).rstrip().endswith(form.reasoning_start.rstrip())
    reader = pipeline.reader(request, prepared)
    assert reader is not None
    final = "<|channel|>final<|message|>" if form.is_harmony else ""
    said = [" I sp", "eak.", form.reasoning_end, final, "It rains."]
    told: dict[str, str] = {}
    for event in (e for text in said for e in reader.read(Delta(text, (1,)))):
        if isinstance(event, Delta):
            told[event.kind] = told.get(event.kind, "") + event.text
    assert told == {"reasoning": " I speak.", "content": "It rains."}
