"""What may be asked of another server: nothing that matters is left out in silence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from inference.engine.upstream.request import UpstreamPipeline
from inference.protocol.events import Snapshot
from inference.protocol.params import (
    ContextParams,
    Grammar,
    GrammarTrigger,
    Limits,
    SamplingParams,
)
from inference.protocol.requests import (
    ChatPrompt,
    InfillPrompt,
    MediaRef,
    Message,
    MixedPrompt,
    TextPrompt,
    TokenPrompt,
    ToolCall,
)
from inference.protocol.spec import EngineSpec, UpstreamSpec, decode_spec, encode_spec
from llamaweb.lib.errors import InvalidError, NotSupportedError
from tests.worker.conftest import generate

HI = Message("user", "hi")
PICTURE = Message("user", "x", media=(MediaRef("0", 1, "image/png"),))


def pipeline(**values: Any) -> UpstreamPipeline:
    return UpstreamPipeline(UpstreamSpec(url="http://h/v1", model="m", **values))


def fields(request: Any, **spec: Any) -> dict[str, Any]:
    return pipeline(**spec).prepare(request).fields


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"prompt": TokenPrompt((1, 2))}, "prompt"),
        ({"prompt": MixedPrompt((1, "x"))}, "prompt"),
        ({"prompt": TextPrompt("")}, "prompt"),
        ({"prompt": ChatPrompt(())}, "messages"),
        ({"prompt": ChatPrompt((HI, Message("assistant", "I")), continue_final=True)}, "messages"),
        ({"prompt": ChatPrompt((PICTURE,))}, "messages"),
        ({"prompt": ChatPrompt((HI,), template_kwargs_json='{"a": 1}')}, "chat_template_kwargs"),
        ({"prompt": TextPrompt("x"), "sampling": SamplingParams(num_probs=1)}, "logprobs"),
        ({"sampling": SamplingParams(grammar=Grammar('root ::= "x"'))}, "grammar"),
        (
            {"sampling": SamplingParams(grammar=Grammar("a", kind="regex", param="so.regex"))},
            "so.regex",
        ),
        ({"sampling": SamplingParams(top_k=5)}, "top_k"),
        ({"sampling": SamplingParams(min_p=0.2)}, "min_p"),
        ({"sampling": SamplingParams(mirostat=1)}, "mirostat"),
        ({"sampling": SamplingParams(repeat_penalty=1.2)}, "repeat_penalty"),
        ({"sampling": SamplingParams(samplers=("top_k",))}, "samplers"),
        ({"sampling": SamplingParams(ignore_eos=True)}, "ignore_eos"),
        ({"sampling": SamplingParams(logit_bias_texts=(("x", 1.0),))}, "logit_bias"),
        ({"sampling": SamplingParams(post_sampling_probs=True)}, "post_sampling_probs"),
        ({"limits": Limits(max_tokens=0)}, "max_tokens"),
        ({"limits": Limits(min_indent=1)}, "n_indent"),
        ({"limits": Limits(max_predict_ms=1)}, "t_max_predict_ms"),
        ({"context": ContextParams(cache_prompt=False)}, "cache_prompt"),
        ({"context": ContextParams(n_keep=4)}, "n_keep"),
        ({"adapters": ((0, 1.0),)}, "lora[0].id"),
    ],
)  # fmt: skip
def test_what_openai_has_no_field_for_is_refused(values: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidError) as caught:
        fields(generate(**values))
    assert caught.value.param == param


def test_what_changes_nothing_is_left_out() -> None:
    plain = fields(generate(sampling=SamplingParams()))
    sampling = SamplingParams(
        top_k=40, min_p=0.05, typical_p=1.0, repeat_penalty=1.0, repeat_last_n=64,
        dynatemp_range=0.0, dynatemp_exponent=1.0, xtc_probability=0.0, xtc_threshold=0.1,
        dry_multiplier=0.0, dry_base=1.75, dry_allowed_length=2, mirostat=0, mirostat_tau=5.0,
    )  # fmt: skip
    assert fields(generate(sampling=sampling, context=ContextParams(conversation="c"))) == plain


def test_a_llama_server_is_told_everything() -> None:
    trigger = GrammarTrigger("token", token_id=4)
    sampling = SamplingParams(
        temperature=-1.0, top_k=5, mirostat=2, samplers=("top_k", "temperature"), num_probs=3,
        logit_bias=((1, None),), logit_bias_texts=(("x", 2.0),), ignore_eos=True,
        grammar=Grammar('root ::= "x"', lazy=True, triggers=(trigger,)),
    )  # fmt: skip
    request = generate(
        prompt=ChatPrompt(
            (HI, Message("assistant", "so", reasoning="hm")), template_kwargs_json='{"a": 1}'
        ),
        sampling=sampling,
        limits=Limits(max_tokens=0, min_indent=2),
        context=ContextParams(cache_prompt=False, n_keep=-1),
        preserved_tokens=("<x>",),
    )
    told = fields(request, dialect="llama_server")
    assert (
        told.items()
        >= {
            "temperature": 0.0,
            "top_k": 5,
            "mirostat": 2,
            "samplers": ["top_k", "temperature"],
            "top_logprobs": 3,
            "logit_bias": [[1, False], ["x", 2.0]],
            "ignore_eos": True,
            "grammar": 'root ::= "x"',
            "grammar_lazy": True,
            "grammar_triggers": [{"type": 0, "value": "", "token": 4}],
            "max_tokens": 0,
            "n_indent": 2,
            "cache_prompt": False,
            "n_keep": -1,
            "preserved_tokens": ["<x>"],
            "chat_template_kwargs": {"a": 1},
        }.items()
    )
    assert told["messages"][1]["reasoning_content"] == "hm"


def test_reasoning_effort_has_a_field_of_openai() -> None:
    def effort(kwargs: str) -> Any:
        prompt = ChatPrompt((HI,), template_kwargs_json=kwargs)
        return fields(generate(prompt=prompt)).get("reasoning_effort")

    assert effort('{"reasoning_effort": "low"}') == "low"
    assert effort('{"enable_thinking": false}') == "none"
    assert effort('{"enable_thinking": true}') is None


def test_tool_history_goes_as_openai_has_it() -> None:
    messages = (
        HI,
        Message("assistant", tool_calls=(ToolCall("c1", "clock", "{}"),)),
        Message("tool", "noon", tool_call_id="c1"),
    )
    sent = fields(generate(prompt=ChatPrompt(messages)))["messages"]
    function = {"name": "clock", "arguments": "{}"}
    assert sent[1] == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }
    assert sent[2] == {"role": "tool", "content": "noon", "tool_call_id": "c1"}


def test_nobody_here_knows_the_tokens() -> None:
    made = pipeline()
    for ask in (
        lambda: made.count(TextPrompt("x")),
        lambda: made.render(ChatPrompt((HI,))),
        lambda: made.tokenize("x", add_special=False, parse_special=False),
        lambda: made.pieces((1,)),
        lambda: made.detokenize((1,)),
        made.describe,
        lambda: made.prepare(generate(prompt=InfillPrompt("a", "b"))),
    ):
        with pytest.raises(NotSupportedError):
            ask()


def after(request: Any, *parts: tuple[Any, str], **spec: Any) -> Any:
    prepared = pipeline(**spec).prepare(request)
    return prepared.after(Snapshot(seq=3, parts=parts), alone=False)


def test_an_answer_is_gone_on_with_where_the_server_can() -> None:
    import json

    request = generate("hi", limits=Limits(max_tokens=10))
    going_on = after(request, ("reasoning", "hm"), ("content", "so far!!"), continues=True)
    body = json.loads(going_on.body())
    assert body["messages"][-1] == {"role": "assistant", "content": "so far!!"}
    assert body["max_tokens"] == 8
    begun = ChatPrompt((HI, Message("assistant", "I ")), continue_final=True)
    going_on = after(generate(prompt=begun), ("content", "am"), continues=True)
    assert json.loads(going_on.body())["messages"][1:] == [{"role": "assistant", "content": "I am"}]
    going_on = after(generate(prompt=TextPrompt("once ")), ("content", "upon"))
    assert json.loads(going_on.body())["prompt"] == "once upon"


def test_reasoning_is_gone_on_with_by_a_server_that_knows_how() -> None:
    thought = Message("assistant", reasoning="Let me see.")
    begun = ChatPrompt((HI, thought), continue_final=True, continue_reasoning=True)
    told = fields(generate(prompt=begun), dialect="llama_server", continues=True)
    assert told["continue_final_message"] == "reasoning_content"
    assert told["messages"][-1]["reasoning_content"] == "Let me see."
    either = generate(prompt=replace(begun, continue_either=True))
    told = fields(either, dialect="llama_server", continues=True)
    assert told["continue_final_message"] is True
    assert "continue_final_message" not in fields(either, continues=True)
    with pytest.raises(InvalidError) as caught:
        fields(generate(prompt=begun), continues=True)
    assert caught.value.param == "continue_final_message"
    going_on = after(
        generate(prompt=begun), ("content", "x"), dialect="llama_server", continues=True
    )
    assert going_on.is_interrupted


SCHEMA = SamplingParams(grammar=Grammar('{"type": "null"}', kind="json_schema", param="x"))


def test_a_schema_is_told_in_the_words_of_the_server() -> None:
    told = fields(generate(sampling=SCHEMA))["response_format"]
    assert told["type"] == "json_schema"
    assert told["json_schema"]["schema"] == {"type": "null"}
    assert fields(generate(sampling=SCHEMA), dialect="llama_server")["json_schema"] == {
        "type": "null"
    }


def test_a_regular_expression_is_told_as_lark() -> None:
    regex = SamplingParams(grammar=Grammar("a/b\n", kind="regex"))
    told = fields(generate(sampling=regex), dialect="llama_server")
    assert told["grammar"] == "%llguidance {}\nstart: /a\\x2fb\\n/"


def test_an_answer_that_can_not_be_gone_on_with_is_interrupted() -> None:
    content = ("content", "x")
    grammar = SamplingParams(grammar=Grammar('root ::= "xy"'))
    assert after(generate(), content).is_interrupted
    assert after(generate(), ("reasoning", "x"), continues=True).is_interrupted
    assert after(generate(), ("tool_call", "{}"), content, continues=True).is_interrupted
    assert after(generate(sampling=SCHEMA), content, continues=True).is_interrupted
    assert after(
        generate(sampling=grammar), content, continues=True, dialect="llama_server"
    ).is_interrupted
    assert not after(generate()).is_interrupted  # nothing was seen of it: from the start


def test_the_key_travels_to_the_engine_and_shows_nowhere() -> None:
    spec = EngineSpec("m", "e", "", "", upstream=UpstreamSpec(url="http://h", key="sk-secret"))
    assert decode_spec(encode_spec(spec)) == spec
    assert "sk-secret" not in repr(spec)
