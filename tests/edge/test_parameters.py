"""What of the wire reaches the engine, and what is refused with field and limit."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from inference.edge.openai.schemas import MAX_NUM_PROBS, ChatCompletionIn, CompletionIn
from inference.engine import sampling
from inference.protocol.params import ContextParams, Grammar, GrammarTrigger, Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, MixedPrompt, TextPrompt, TokenPrompt
from inference.registry.chat_defaults import ChatDefaults
from tests.edge.events import answer
from tests.edge.wire import CHAT, TEXT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
NOT_OF_THIS_SERVER = ["user", "metadata"]
ALL_FIELDS = [
    *(set(ChatCompletionIn.model_fields) | set(CompletionIn.model_fields)),
    *NOT_OF_THIS_SERVER,
]
TRIGGER_0 = "grammar_triggers[0]"
MUST_BE_GIVEN = {"messages", "prompt"}


async def test_nothing_given_is_the_engines_default(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    for path in (CHAT, TEXT):
        assert (await wire.post(path))[0] == 200
        request = fake.submitted.pop()
        assert request.sampling == SamplingParams()
        assert request.limits == Limits()
        assert 0 <= request.seed < 2**32 - 1


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_p06_null_is_absent(says: Says, wire: Wire, path: str) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(path, **dict.fromkeys(set(ALL_FIELDS) - MUST_BE_GIVEN))
    assert status == 200, body
    assert fake.submitted[0].sampling == SamplingParams()
    assert fake.submitted[0].limits == Limits()


HI = {"role": "user", "content": "hi"}
OWN = {"role": "system", "content": ""}


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([HI], [("system", "Be brief."), ("user", "hi")]),
        ([OWN, HI], [("system", ""), ("user", "hi")]),
        ([HI, {"role": "developer", "content": "x"}], [("user", "hi"), ("system", "x")]),
    ],
)
async def test_the_models_system_prompt(
    says: Says, wire: Wire, messages: list[Any], told: list[tuple[str, str]]
) -> None:
    fake = says(*answer("x"))
    fake.chat = ChatDefaults("Be brief.")
    assert (await wire.post(CHAT, messages=messages))[0] == 200
    prompt = fake.submitted[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert [(message.role, message.content) for message in prompt.messages] == told
    assert prompt.public_messages == (told[0] == ("system", "Be brief."))


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        ({}, {}),
        ({"chat_template_kwargs": {"enable_thinking": True}}, {"enable_thinking": True}),
        ({"chat_template_kwargs": {"mine": 1}}, {"mine": 1}),
        ({"reasoning_effort": "high"}, {"reasoning_effort": "high"}),
    ],
)
async def test_a_requests_own_variables_win_one_by_one(
    says: Says, wire: Wire, given: dict[str, Any], changed: dict[str, Any]
) -> None:
    fake = says(*answer("x"))
    variables = {"enable_thinking": False, "reasoning_effort": "low", "tone": "dry"}
    fake.chat = ChatDefaults(variables=variables)
    assert (await wire.post(CHAT, **given))[0] == 200
    prompt = fake.submitted[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert json.loads(prompt.template_kwargs_json or "") == variables | changed
    assert json.loads(prompt.public_kwargs_json or "") == variables


async def test_raw_completions_get_nothing_of_the_model(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    fake.chat = ChatDefaults("Be brief.", {"tone": "dry"})
    assert (await wire.post(TEXT, prompt="Once"))[0] == 200
    assert fake.submitted[0].prompt == TextPrompt("Once")


async def test_request_is_the_callers(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    await wire.post(CHAT, seed=-1)
    request = fake.submitted[0]
    assert (request.owner_key, request.cache_scope) == ("user:7", "user:7")
    assert request.deadline_at > request.submitted_at
    assert (request.lane, request.keep, request.on_finish) == ("interactive", False, None)


@pytest.mark.parametrize(
    ("given", "max_tokens"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6, "max_tokens": 5}, 6),
        ({"n_predict": 7, "max_completion_tokens": 6, "max_tokens": 5}, 7),
        ({"n_predict": None, "max_tokens": 5}, 5),
        ({"max_tokens": 0}, 0),
        ({"max_tokens": -1}, None),
        ({"n_predict": -1, "max_tokens": 5}, None),
        ({"max_tokens": 10**9}, 10**9),
        ({"max_tokens": 2**62}, 2**31 - 1),
    ],
)
async def test_p07_length(
    says: Says, wire: Wire, given: dict[str, Any], max_tokens: int | None
) -> None:
    fake = says(*answer("x"))
    for path in (CHAT, TEXT):
        assert (await wire.post(path, **given))[0] == 200
        assert fake.submitted.pop().limits.max_tokens == max_tokens


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"temperature": 0}, "temperature", 0.0),
        ({"temperature": -3}, "temperature", 0.0),
        ({"top_p": 1.7}, "top_p", 1.0),
        ({"min_p": -0.1}, "min_p", 0.0),
        ({"top_k": -5}, "top_k", 0),
        ({"top_k": 7}, "top_k", 7),
        ({"mirostat": 9}, "mirostat", 2),
        ({"repeat_last_n": 2**31 - 1}, "repeat_last_n", 2**31 - 1),
        ({"repeat_last_n": 2**40}, "repeat_last_n", 2**31 - 1),
        ({"dry_penalty_last_n": 2**31 - 1}, "dry_penalty_last_n", 2**31 - 1),
        ({"presence_penalty": 1}, "presence_penalty", 1.0),
        ({"ignore_eos": True}, "ignore_eos", True),
        ({"dry_sequence_breakers": ["a", "b"]}, "dry_sequence_breakers", ("a", "b")),
        ({"samplers": ["top_k", "temp"]}, "samplers", ("top_k", "temp")),
        ({"samplers": "kt?"}, "samplers", ("top_k", "temperature")),
        ({"samplers": []}, "samplers", ()),
        ({"logit_bias": {"15": -100, "7": False}}, "logit_bias", ((15, -100.0), (7, None))),
        ({"logit_bias": [[15, 1.5]]}, "logit_bias", ((15, 1.5),)),
        ({"logit_bias": [["15", 1.5], [3, 2]]}, "logit_bias_texts", (("15", 1.5),)),
        ({"logit_bias": {" the": False, "7": 1}}, "logit_bias_texts", ((" the", None),)),
        ({"samplers": "kai"}, "samplers", ("top_k", "adaptive_p", "infill")),
        ({"adaptive_target": 3}, "adaptive_target", 1.0),
        ({"adaptive_target": -1}, "adaptive_target", -1.0),
        ({"adaptive_decay": 0.5}, "adaptive_decay", 0.5),
        ({"post_sampling_probs": True}, "post_sampling_probs", True),
        ({"grammar": 'root ::= "a"'}, "grammar", Grammar('root ::= "a"')),
        ({"grammar": ""}, "grammar", None),
        (
            {
                "grammar": "root ::= x",
                "grammar_lazy": True,
                "grammar_triggers": [{"type": 1, "value": "<x>"}, {"type": 0, "token": 7}],
            },
            "grammar",
            Grammar(
                "root ::= x", True, (GrammarTrigger("word", "<x>"), GrammarTrigger("token", "", 7))
            ),
        ),
    ],
)
async def test_sampling(
    says: Says, wire: Wire, given: dict[str, Any], field: str, value: object
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(CHAT, **given)
    assert status == 200, body
    assert getattr(fake.submitted[0].sampling, field) == value


@pytest.mark.parametrize(
    ("given", "limits"),
    [
        ({"n_indent": 2}, Limits(min_indent=2)),
        ({"t_max_predict_ms": 500}, Limits(max_predict_ms=500)),
        ({"t_max_predict_ms": -1}, Limits()),
        ({"t_max_predict_ms": 0}, Limits()),
    ],
)
async def test_indent_and_time(
    says: Says, wire: Wire, given: dict[str, Any], limits: Limits
) -> None:
    fake = says(*answer("x"))
    for path in (CHAT, TEXT):
        assert (await wire.post(path, **given))[0] == 200
        assert fake.submitted.pop().limits == limits


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ContextParams()),
        ({"cache_prompt": False}, ContextParams(cache_prompt=False)),
        ({"cache_prompt": None, "n_cache_reuse": 256}, ContextParams(n_cache_reuse=256)),
        ({"n_keep": -1, "n_discard": 64}, ContextParams(n_keep=-1, n_discard=64)),
    ],
)
async def test_context(
    says: Says, wire: Wire, given: dict[str, Any], expected: ContextParams
) -> None:
    fake = says(*answer("x"))
    for path in (CHAT, TEXT):
        assert (await wire.post(path, **given))[0] == 200
        assert fake.submitted.pop().context == expected


async def test_preserved_tokens(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    await wire.post(CHAT, preserved_tokens=["<think>", "</think>"])
    assert fake.submitted[0].preserved_tokens == ("<think>", "</think>")


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_adapters(says: Says, wire: Wire, path: str) -> None:
    fake = says(*answer("x"))
    fake.num_adapters = 2
    for lora in (None, [], [{"id": 1, "scale": 0.5}, {"id": 0}]):
        assert (await wire.post(path, lora=lora))[0] == 200
    asked = [request.adapters for request in fake.submitted]
    assert asked == [None, None, ((1, 0.5), (0, 0.0))]


async def test_a_model_without_adapters_says_so(says: Says, wire: Wire) -> None:
    says(*answer("x"))
    status, body = await wire.post(CHAT, lora=[{"id": 0, "scale": 1}])
    assert (status, body["error"]["param"]) == (400, "lora[0].id")
    assert body["error"]["message"].endswith("there is no adapter 0; this model has none")


@pytest.mark.parametrize(
    ("stop", "strings"),
    [
        ("a", ("a",)),
        (["a", "b", "a"], ("a", "b")),
        ([], ()),
        ("", ()),
        (["", "x"], ("x",)),
        (["x" * 256, *"abcdefghijklmno"], ("x" * 256, *"abcdefghijklmno")),
    ],
)
async def test_stop(says: Says, wire: Wire, stop: object, strings: tuple[str, ...]) -> None:
    fake = says(*answer("x"))
    await wire.post(CHAT, stop=stop)
    assert fake.submitted[0].limits.stop == strings


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": "10"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": -2}, "max_tokens"),
        ({"max_tokens": 1e300}, "max_tokens"),
        ({"n_predict": []}, "n_predict"),
        ({"stream": "yes"}, "stream"),
        ({"stream": 1}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"seed": 1.5}, "seed"),
        ({"top_k": "40"}, "top_k"),
        ({"repeat_last_n": -1}, "repeat_last_n"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
        ({"n": 0}, "n"),
        ({"n_probs": 21}, "n_probs"),
        ({"n_probs": -1}, "n_probs"),
        ({"n": 5}, "n"),
        ({"sse_ping_interval": -2}, "sse_ping_interval"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop[1]"),
        ({"stop": ["x" * 2000]}, "stop[0]"),
        ({"stop": ["x" * 256, "x" * 257]}, "stop[1]"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"dry_sequence_breakers": []}, "dry_sequence_breakers"),
        ({"logit_bias": [[None, 1]]}, "logit_bias[0]"),
        ({"logit_bias": [[-1, 1]]}, "logit_bias[0]"),
        ({"logit_bias": [[1, 1e7]]}, "logit_bias[0]"),
        ({"logit_bias": [["x" * 70_000, 1]]}, "logit_bias"),
        ({"temperature": 1e7}, "temperature"),
        ({"dry_multiplier": -1}, "dry_multiplier"),
        ({"adaptive_decay": 1}, "adaptive_decay"),
        ({"grammar": {"root": 1}}, "grammar"),
        ({"grammar": "x" * 70_000}, "grammar"),
        ({"grammar": "x", "grammar_lazy": True}, "grammar_triggers"),
        ({"grammar": "x", "grammar_triggers": 5}, "grammar_triggers"),
        ({"grammar": "x", "grammar_triggers": ["a"]}, "grammar_triggers[0]"),
        ({"grammar": "x", "grammar_triggers": [{"type": 1}]}, "grammar_triggers[0]"),
        ({"grammar": "x", "grammar_triggers": [{"type": 0}]}, "grammar_triggers[0]"),
        ({"grammar": "x", "grammar_triggers": [{"type": 2, "value": "(a+)+"}]}, TRIGGER_0),
        ({"grammar": "x", "grammar_triggers": [{"type": True, "value": "a"}]}, TRIGGER_0),
        ({"grammar": "x", "grammar_triggers": [{}] * 65}, "grammar_triggers"),
        ({"preserved_tokens": "x"}, "preserved_tokens"),
        ({"preserved_tokens": ["x"] * 257}, "preserved_tokens"),
        ({"lora": {"id": 0, "scale": 1}}, "lora"),
        ({"lora": [{"id": 0}] * 17}, "lora"),
        ({"lora": [1]}, "lora[0]"),
        ({"lora": [{"scale": 1}]}, "lora[0].id"),
        ({"lora": [{"id": True}]}, "lora[0].id"),
        ({"lora": [{"id": 0}, {"id": 2}]}, "lora[1].id"),
        ({"lora": [{"id": -1}]}, "lora[0].id"),
        ({"lora": [{"id": 1, "scale": "1"}]}, "lora[0].scale"),
        ({"lora": [{"id": 1, "scale": 101}]}, "lora[0].scale"),
        ({"n_indent": -1}, "n_indent"),
        ({"n_cache_reuse": -1}, "n_cache_reuse"),
        ({"n_keep": -2}, "n_keep"),
        ({"n_discard": -1}, "n_discard"),
        ({"t_max_predict_ms": -2}, "t_max_predict_ms"),
        ({"logit_bias": [[1, True]]}, "logit_bias[0]"),
        ({"logit_bias": [1]}, "logit_bias[0]"),
        ({"samplers": [1]}, "samplers"),
        ({"model": 5}, "model"),
        # not in this version, and said so
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice"),
        ({"functions": [{}]}, "functions"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": "text"}, "response_format"),
        ({"json_schema": "{}"}, "json_schema"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_mistakes_are_named(
    says: Says, wire: Wire, path: str, given: dict[str, Any], param: str
) -> None:
    fake = says(*answer("x"))
    fake.num_adapters = 2
    status, body = await wire.post(path, **given)
    assert status == 400, body
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["param"] == param
    assert body["error"]["code"] == 400
    assert not fake.submitted


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": 3}, "logprobs"),
        (
            {"chat_template_kwargs": {"enable_thinking": "no"}},
            "chat_template_kwargs.enable_thinking",
        ),
        ({"chat_template_kwargs": {"x": "y" * 70_000}}, "chat_template_kwargs"),
        ({"reasoning_format": "secret"}, "reasoning_format"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"add_generation_prompt": False}, "add_generation_prompt"),
    ],
)
async def test_mistakes_of_chats(says: Says, wire: Wire, given: dict[str, Any], param: str) -> None:
    says(*answer("x"))
    status, body = await wire.post(CHAT, **given)
    assert (status, body["error"]["param"]) == (400, param)


async def test_the_edge_takes_as_many_rivals_as_the_engine(says: Says, wire: Wire) -> None:
    assert MAX_NUM_PROBS == sampling.MAX_NUM_PROBS == 20
    fake = says(*answer("x"))
    for given in ({"n_probs": 20}, {"logprobs": 20}):
        assert (await wire.post(TEXT, **given))[0] == 200
        assert fake.submitted.pop().sampling.num_probs == 20
    status, body = await wire.post(TEXT, logprobs=21)
    assert (status, body["error"]["param"]) == (400, "logprobs")


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


@pytest.mark.parametrize("levels", [64, 120])  # beyond 128 the body is refused as a whole
@pytest.mark.parametrize(
    "name",
    [
        *("chat_template_kwargs", "response_format", "tools", "functions", "tool_choice"),
        *("json_schema", "grammar_triggers", "lora", "stop", "samplers", "logit_bias"),
    ],
)
async def test_p13_deep_values_are_refused(says: Says, wire: Wire, name: str, levels: int) -> None:
    """Most would be refused for another reason later; this one comes before anything walks them."""
    fake = says(*answer("x"))
    status, body = await wire.post(CHAT, **{name: {"type": "text", "a": nested(levels)}})
    assert status == 400, body
    assert body["error"]["param"] == name
    assert body["error"]["message"] == (
        f"{name}: is nested too deeply, at most 64 levels are allowed"
    )
    assert not fake.submitted


async def test_values_of_the_greatest_depth_are_served(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    kwargs = {"a": nested(63)}
    given = {"chat_template_kwargs": kwargs, "response_format": {"type": "text", "a": nested(63)}}
    assert (await wire.post(CHAT, **given))[0] == 200
    prompt = fake.submitted[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert json.loads(prompt.template_kwargs_json or "") == kwargs


async def test_harmless_forms_are_accepted(says: Says, wire: Wire) -> None:
    says(*answer("x"))
    given: dict[str, Any] = {
        "tools": [],
        "tool_choice": "auto",
        "response_format": {"type": "text"},
        "parallel_tool_calls": True,
        "user": "somebody",
        "unknown_field": {"deep": [1]},
        "top_n_sigma": -1,
        "grammar": "",
        "lora": [],
    }
    status, body = await wire.post(CHAT, **given)
    assert status == 200, body


async def test_thinking_is_a_template_variable(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    await wire.post(CHAT, reasoning_effort="none")
    await wire.post(CHAT, reasoning_effort="high", chat_template_kwargs={"mood": "calm"})
    kwargs = [r.prompt.template_kwargs_json for r in fake.submitted]  # type: ignore[union-attr]
    assert kwargs == ['{"enable_thinking": false}', '{"mood": "calm", "reasoning_effort": "high"}']


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", [TextPrompt("a")]),
        ("", [TextPrompt("")]),
        ([1, 2], [TokenPrompt((1, 2))]),
        (["a", "b"], [TextPrompt("a"), TextPrompt("b")]),
        ([[1], "b", {"prompt_string": "c"}], [TokenPrompt((1,)), TextPrompt("b"), TextPrompt("c")]),
        ([1, "a", 2], [MixedPrompt((1, "a", 2))]),
        (["a", 2], [MixedPrompt(("a", 2))]),
        ([[1, "a"], ["b", 2]], [MixedPrompt((1, "a")), MixedPrompt(("b", 2))]),
    ],
)
async def test_prompts(says: Says, wire: Wire, prompt: object, prompts: list[object]) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(TEXT, prompt=prompt)
    assert status == 200
    assert [r.prompt for r in fake.submitted] == prompts
    assert [c["index"] for c in body["choices"]] == list(range(len(prompts)))


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ([], "prompt"),
        (5, "prompt"),
        ({}, "prompt"),
        ([1, None], "prompt"),
        ([1, [2]], "prompt"),
        ([[1, True]], "prompt[0]"),
        ([0, *["a"] * 1025], "prompt"),
        ([True], "prompt[0]"),
        ([[]], "prompt[0]"),
        (["a", None], "prompt[1]"),
        (["a"] * 65, "prompt"),
        ({"prompt_string": "x", "multimodal_data": ["aa"]}, "prompt.multimodal_data"),
    ],
)
async def test_bad_prompts(says: Says, wire: Wire, prompt: object, param: str) -> None:
    says(*answer("x"))
    status, body = await wire.post(TEXT, prompt=prompt)
    assert (status, body["error"]["param"]) == (400, param)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"stop": 5}, "stop: must be text or a list of texts"),
        ({"stop": ["a", 5]}, "stop[1]: must be text"),
        ({"n_probs": MAX_NUM_PROBS + 1}, "n_probs: Input should be less than or equal to 20"),
        ({"functions": [{}]}, "'functions' is not supported by this server; use 'tools'"),
    ],
)
async def test_the_message_alone_names_the_field(
    says: Says, wire: Wire, body: dict[str, Any], message: str
) -> None:
    says(*answer("x"))
    for path in (CHAT, TEXT):
        assert (await wire.post(path, **body))[1]["error"]["message"] == message
