"""What of Ollama's requests reaches the engine, and what is refused with the field's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.edge.ollama.options import asks_to_unload, generation_of
from inference.edge.ollama.schemas import MAX_DURATION_CHARS, ChatIn, GenerateIn, OptionsIn
from inference.edge.wire_types import MAX_INT32
from inference.protocol.events import Failed
from inference.protocol.params import ContextParams, Grammar, Limits, SamplingParams
from inference.protocol.requests import (
    ChatPrompt,
    GenerateRequest,
    InfillPrompt,
    Message,
    TextPrompt,
    ToolCall,
)
from inference.registry.chat_defaults import ChatDefaults
from llamaweb.lib.errors import InvalidError
from tests.edge.events import answer
from tests.edge.ollama.lines import CHAT, GENERATE, HELLO, PATHS, Ollama
from tests.edge.test_tools import SCHEMA, tool
from tests.fakes.inference_api import FakeInference, scripted

Says = Callable[..., FakeInference]
both = pytest.mark.parametrize("path", PATHS)


@pytest.fixture
def fake(fake: FakeInference, says: Says) -> FakeInference:
    """It answers."""
    return says(*answer("x"))


async def asked(fake: FakeInference, ollama: Ollama, path: str, **body: Any) -> GenerateRequest:
    """What the engine is asked."""
    status, got = await ollama.post(path, **body)
    assert status == 200, got
    return fake.submitted.pop()


async def refused(ollama: Ollama, path: str, **body: Any) -> str:
    """The message of a 400."""
    status, got = await ollama.post(path, **body)
    assert status == 400, got
    assert set(got) == {"error"}
    return str(got["error"])


@both
async def test_nothing_given_is_the_models_default(
    fake: FakeInference, ollama: Ollama, path: str
) -> None:
    request = await asked(fake, ollama, path)
    assert request.sampling == SamplingParams()
    assert request.limits == Limits()
    assert request.context == ContextParams()
    assert request.model == "tiny"
    assert not request.keep


@both
async def test_options(fake: FakeInference, ollama: Ollama, path: str) -> None:
    given = {
        "temperature": 0.5, "top_k": 7, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.7,
        "repeat_penalty": 1.1, "repeat_last_n": 32, "presence_penalty": 0.1,
        "frequency_penalty": 0.2, "mirostat": 2, "mirostat_tau": 4.0, "mirostat_eta": 0.2,
    }  # fmt: skip
    ends = {"num_predict": 9, "stop": ["a", "b", "a"], "seed": 42, "num_keep": 5}
    of_the_load = {"num_ctx": 4096, "num_gpu": 99, "num_thread": 8, "use_mmap": True, "numa": False}
    request = await asked(fake, ollama, path, options={**given, **ends, **of_the_load})
    assert request.sampling == SamplingParams(**given)
    assert request.limits == Limits(max_tokens=9, stop=("a", "b"))
    assert request.seed == 42
    assert request.context == ContextParams(n_keep=5)


@pytest.mark.parametrize(
    ("num_predict", "max_tokens"),
    [(0, 0), (1, 1), (-1, None), (-2, None), (None, None), (10**9, 10**9)],
)
async def test_p07_lengths(
    fake: FakeInference, ollama: Ollama, num_predict: Any, max_tokens: int | None
) -> None:
    request = await asked(fake, ollama, CHAT, options={"num_predict": num_predict})
    assert request.limits.max_tokens == max_tokens


async def test_all_of_the_context_may_be_looked_back_over(
    fake: FakeInference, ollama: Ollama
) -> None:
    request = await asked(fake, ollama, CHAT, options={"repeat_last_n": -1})
    assert request.sampling.repeat_last_n == MAX_INT32


@both
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"num_predict": 1.5}, "num_predict"),
        ({"num_predict": "10"}, "num_predict"),
        ({"num_predict": -3}, "num_predict"),
        ({"temperature": 1e30}, "temperature"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
        ({"stop": 7}, "stop"),
        ({"stop": ["x"] * 65}, "stop"),
        ({"stop": [7]}, "stop[0]"),
        ({"seed": True}, "seed"),
        ("hot", ""),
    ],
)
async def test_bad_options(
    fake: FakeInference, ollama: Ollama, path: str, options: Any, field: str
) -> None:
    message = await refused(ollama, path, options=options)
    assert message.startswith(f"options.{field}: " if field else "options: ")
    assert not fake.submitted


OPTION_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.text())
)


@given(st.dictionaries(st.sampled_from(sorted(OptionsIn.model_fields)), OPTION_VALUES))
def test_options_that_are_read_can_be_used(options: dict[str, Any]) -> None:
    """What passes this family's types passes those that all share: no 500 in between."""
    try:
        made = OptionsIn.model_validate(options)
    except ValueError:
        return
    generation_of(made)


@both
async def test_p06_null_is_absent(fake: FakeInference, ollama: Ollama, path: str) -> None:
    fields = set(ChatIn.model_fields) | set(GenerateIn.model_fields) | {"context", "width"}
    nulls = dict.fromkeys(fields - {"messages", "prompt", "stream"})
    request = await asked(fake, ollama, path, **nulls)
    assert request.sampling == SamplingParams()
    nulls = dict.fromkeys(OptionsIn.model_fields)
    request = await asked(fake, ollama, path, options=nulls)
    assert request.sampling == SamplingParams()
    assert request.limits == Limits()


@both
@pytest.mark.parametrize(
    ("form", "grammar"),
    [
        ("json", Grammar("{}", kind="json_schema", param="format")),
        (SCHEMA, Grammar(json.dumps(SCHEMA), kind="json_schema", param="format")),
        ("", None),
    ],
)
async def test_format(
    fake: FakeInference, ollama: Ollama, path: str, form: Any, grammar: Grammar | None
) -> None:
    request = await asked(fake, ollama, path, format=form)
    assert request.sampling.grammar == grammar


@both
@pytest.mark.parametrize("form", ["xml", 7, ["json"], True])
async def test_a_format_that_is_none(
    fake: FakeInference, ollama: Ollama, path: str, form: Any
) -> None:
    assert (await refused(ollama, path, format=form)).startswith("format: ")


@both
@pytest.mark.parametrize("keyword", ["pattern", "uniqueItems"])
async def test_s05_s06_a_schema_that_can_not_be_kept_names_its_keyword(
    fake: FakeInference, ollama: Ollama, path: str, keyword: str
) -> None:
    param = f"format.properties.city.{keyword}"
    fake.script = scripted(Failed("invalid_request", "can't be enforced", param=param))
    for stream in (True, False):
        message = await refused(ollama, path, stream=stream, format=SCHEMA)
        assert message == f"{param}: can't be enforced"


@both
@pytest.mark.parametrize(
    ("think", "variables"),
    [
        (True, {"enable_thinking": True}),
        (False, {"enable_thinking": False}),
        ("high", {"enable_thinking": True, "reasoning_effort": "high"}),
        (None, None),
    ],
)
async def test_think(
    fake: FakeInference, ollama: Ollama, path: str, think: Any, variables: Any
) -> None:
    request = await asked(fake, ollama, path, think=think)
    assert isinstance(request.prompt, ChatPrompt)
    assert json.loads(request.prompt.template_kwargs_json or "null") == variables


async def test_think_in_a_way_that_nobody_knows(fake: FakeInference, ollama: Ollama) -> None:
    assert (await refused(ollama, CHAT, think="hard")).startswith("think: must be true, false or")
    assert (await refused(ollama, CHAT, think=3)).startswith("think")


@both
@pytest.mark.parametrize("name", ["tiny:latest", "tiny", "default", ""])
async def test_names_with_the_usual_tag(
    fake: FakeInference, ollama: Ollama, path: str, name: str
) -> None:
    assert (await asked(fake, ollama, path, model=name)).model == "tiny"


@both
@pytest.mark.parametrize("name", ["nobody", "nobody:latest", "tiny:8b", "tiny:latest:latest"])
async def test_a_model_that_is_not_there(
    fake: FakeInference, ollama: Ollama, path: str, name: str
) -> None:
    status, body = await ollama.post(path, model=name)
    assert status == 404
    assert name in body["error"]


async def test_a_prompt_is_one_message(fake: FakeInference, ollama: Ollama) -> None:
    request = await asked(fake, ollama, GENERATE, system="Be brief.", prompt="Hi", context=[1, 2])
    assert request.prompt == ChatPrompt((Message("system", "Be brief."), Message("user", "Hi")))


async def test_the_models_system_prompt_comes_before(fake: FakeInference, ollama: Ollama) -> None:
    fake.chat = ChatDefaults("Be kind.")
    for path in PATHS:
        request = await asked(fake, ollama, path)
        assert isinstance(request.prompt, ChatPrompt)
        assert [m.role for m in request.prompt.messages] == ["system", "user"]
        assert request.prompt.public_messages == 1


async def test_raw_is_taken_as_it_is(fake: FakeInference, ollama: Ollama) -> None:
    request = await asked(fake, ollama, GENERATE, raw=True, prompt="<s>Hi")
    assert request.prompt == TextPrompt("<s>Hi")
    assert (await refused(ollama, GENERATE, raw=True, system="x")).startswith("system: ")


async def test_a_suffix_is_a_gap_to_fill(fake: FakeInference, ollama: Ollama) -> None:
    request = await asked(fake, ollama, GENERATE, prompt="def f(", suffix="return x")
    assert request.prompt == InfillPrompt("def f(", "return x")
    request = await asked(fake, ollama, GENERATE, prompt="", suffix="return x")
    assert request.prompt == InfillPrompt("", "return x")


async def test_what_can_not_be_done_is_refused(fake: FakeInference, ollama: Ollama) -> None:
    assert (await refused(ollama, GENERATE, template="{{ .Prompt }}")).startswith("template: ")
    assert (await refused(ollama, CHAT, top_logprobs=3)).startswith("top_logprobs")
    assert (await refused(ollama, CHAT, top_logprobs=21, logprobs=True)).startswith("top_logprobs")
    assert (await refused(ollama, CHAT, keep_alive="soon")).startswith("keep_alive: ")
    long = await refused(ollama, CHAT, keep_alive="1" * MAX_DURATION_CHARS + "s")
    assert long == f"keep_alive: String should have at most {MAX_DURATION_CHARS} characters"
    assert not fake.submitted


async def test_p08_images_and_contents_that_are_none(fake: FakeInference, ollama: Ollama) -> None:
    def said(**message: Any) -> list[dict[str, Any]]:
        return [*HELLO, {"role": "user", "content": "x", **message}]

    message = await refused(ollama, CHAT, messages=said(images=["aGk="]))
    assert message.startswith("messages[1].images: ")
    assert "image input is not supported" in message
    assert "image" in await refused(ollama, GENERATE, images=["aGk="])
    assert "image" in await refused(ollama, GENERATE, prompt="", images=["aGk="])
    for content in (None, [], 7, [{"type": "text", "text": None}], [{"type": "hologram"}]):
        found = await refused(ollama, CHAT, messages=said(content=content))
        assert found.startswith("messages[1].content")
    await asked(fake, ollama, CHAT, messages=said(images=[]))


@pytest.mark.parametrize(
    "messages", ["x", {}, [None], [{"role": "user"}], [{"content": "x"}], [{"role": "ghost"}]]
)
async def test_p13_messages_that_are_none(
    fake: FakeInference, ollama: Ollama, messages: Any
) -> None:
    assert "messages" in await refused(ollama, CHAT, messages=messages)


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_p01_p03_system_text_anywhere(fake: FakeInference, ollama: Ollama, role: str) -> None:
    messages = [*HELLO, {"role": "assistant", "content": "Hi"}, {"role": role, "content": "Brief."}]
    request = await asked(fake, ollama, CHAT, messages=[*messages, *HELLO])
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.messages[2] == Message("system", "Brief.")


async def test_p04_calls_and_results_find_each_other(fake: FakeInference, ollama: Ollama) -> None:
    """Ollama's history has no ids: names and order tell."""
    calls = [
        {"function": {"name": "clock", "arguments": {}}},
        {"function": {"name": "weather", "arguments": {"city": "Zürich"}}},
    ]
    messages = [
        *HELLO,
        {"role": "assistant", "content": None, "thinking": "Both.", "tool_calls": calls},
        {"role": "tool", "tool_name": "weather", "content": "rain"},
        {"role": "tool", "content": "noon"},
        {"role": "tool", "content": "one too many"},
    ]
    request = await asked(fake, ollama, CHAT, messages=messages)
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.messages[1:] == (
        Message(
            "assistant",
            reasoning="Both.",
            tool_calls=(
                ToolCall("call_0", "clock", "{}"),
                ToolCall("call_1", "weather", '{"city": "Zürich"}'),
            ),
        ),
        Message("tool", "rain", tool_call_id="call_1", name="weather"),
        Message("tool", "noon", tool_call_id="call_0"),
        Message("tool", "one too many"),
    )


async def test_ids_that_a_client_has_stay(fake: FakeInference, ollama: Ollama) -> None:
    call = {"id": "mine", "function": {"name": "clock", "arguments": {}}}
    messages = [
        *HELLO,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "mine", "content": "noon"},
    ]
    request = await asked(fake, ollama, CHAT, messages=messages)
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.messages[1].tool_calls[0].id == "mine"
    assert request.prompt.messages[2].tool_call_id == "mine"


async def test_tools_are_shown_to_the_model(fake: FakeInference, ollama: Ollama) -> None:
    request = await asked(fake, ollama, CHAT, tools=[tool("weather", parameters=SCHEMA)])
    assert isinstance(request.prompt, ChatPrompt)
    (shown,) = json.loads(request.prompt.tools_json or "[]")
    assert shown["function"]["name"] == "weather"
    assert shown["function"]["parameters"] == SCHEMA
    assert (await refused(ollama, CHAT, tools=[{"type": "web_search"}])).startswith("tools[0].type")


async def test_an_answer_that_was_begun_is_continued(fake: FakeInference, ollama: Ollama) -> None:
    begun = [*HELLO, {"role": "assistant", "content": "Well,"}]
    request = await asked(fake, ollama, CHAT, messages=begun)
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.continue_final
    two = [*begun, {"role": "assistant", "content": "hm"}]
    assert (await refused(ollama, CHAT, messages=two)).startswith("messages")


@pytest.mark.parametrize(
    ("keep_alive", "unloads"),
    [
        *((value, True) for value in (0, 0.0, "0", "0s", "0m0s")),
        *((value, False) for value in (None, -1, 300, "5m", "-1s", "1h30m", "1.5h", "1.h", ".5s")),
    ],
)
def test_keep_alive(keep_alive: Any, unloads: bool) -> None:
    assert asks_to_unload(keep_alive) is unloads


@pytest.mark.parametrize("keep_alive", ["", "x", "5", "5 m", "m5", "1h 30m", "५m"])
def test_keep_alive_that_is_none(keep_alive: str) -> None:
    with pytest.raises(InvalidError):
        asks_to_unload(keep_alive)
