"""Reasoning and calls in the log: taken apart once, whoever goes on with the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.protocol.events import CallRef, Failed, Finished, Snapshot
from inference.protocol.fold import runs_of, text_of
from inference.protocol.params import Grammar, Limits, SamplingParams
from inference.protocol.requests import (
    AnswerParams,
    ChatPrompt,
    GenerateRequest,
    Message,
    ReplyInfo,
)
from inference.text.answer.reader import AnswerReader, call_ids
from inference.text.chat_template import CHATML_TEMPLATE
from tests.fakes.mock_model import HERMES
from tests.worker.conftest import MODEL, Bench, generate
from tests.worker.test_resume import Deaf

OPENED = HERMES + "{{ '<think>\n' }}"  # the template opens the reasoning itself
REPLY = (
    "<think>\nNaïve 漢字 first.\n</think>\n\nI look 😺. "
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich", "days": 2}}\n</tool_call>\n'
    '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'
)
CALLS = '{"city": "Zürich", "days": 2}', "{}"


def tools(*names: str) -> str:
    functions = [{"type": "function", "function": {"name": name}} for name in names]
    return json.dumps(functions)


def ask(*names: str, **values: Any) -> GenerateRequest:
    prompt = ChatPrompt((Message("user", "hi"),), tools_json=tools(*names) if names else None)
    return generate(prompt=prompt, **values)


def check_whole(log: Snapshot, request: GenerateRequest) -> None:
    assert log.parts == (
        ("reasoning", "Naïve 漢字 first."),
        ("content", "I look 😺."),
        ("tool_call", CALLS[0]),
        ("tool_call", CALLS[1]),
    )
    make_id = call_ids(request.generation_id)
    assert log.calls == (
        CallRef(0, make_id(), "weather", "complete"),
        CallRef(1, make_id(), "clock", "complete"),
    )
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "tool_calls"
    assert log.terminal.usage.completion_tokens == len(REPLY.encode())


def test_reasoning_content_and_calls(bench: Bench) -> None:
    bench.start(reply=REPLY, chat_template=HERMES)
    request = ask("weather", "clock")
    check_whole(bench.ended(bench.submit(request)), request)


@pytest.mark.parametrize("num_tokens", [3, 25, 60, 75, 120, 150])
def test_a_second_engine_goes_on_within_a_part(bench: Bench, num_tokens: int) -> None:
    deaf = Deaf(bench)
    spec = {"reply": REPLY, "chat_template": HERMES}
    bench.start(queue=deaf, delay_ms=2, **spec)
    request = ask("weather", "clock")
    gid = bench.submit(request)
    bench.wait_text(gid, num_tokens)
    deaf.is_cut = True
    bench.start(**spec)
    check_whole(bench.ended(gid), request)


def test_a_template_that_opens_the_reasoning(bench: Bench) -> None:
    bench.start(reply="So it is.\n</think>\nYes.", chat_template=OPENED)
    log = bench.ended(bench.submit(ask()))
    assert log.parts == (("reasoning", "So it is."), ("content", "Yes."))


LLAMA = CHATML_TEMPLATE + "{# <|python_tag|> #}"  # calls are bare JSON
CALL = '{"name": "weather", "parameters": {}}'


OBJECT = Grammar('{"type": "object"}', kind="json_schema")
LETTERS = Grammar(r"[a-z/\"{}:, ]+", kind="regex")


@pytest.mark.parametrize(
    ("template", "grammar", "names"),
    [
        (OPENED, Grammar("%llguidance {}\nstart: /.*/", kind="lark"), ()),
        (OPENED, Grammar(f"root ::= {json.dumps(CALL)}"), ()),
        (HERMES, OBJECT, ("weather",)),
        (HERMES, LETTERS, ()),
        (LLAMA, OBJECT, ()),
    ],
)
def test_an_answer_in_the_form_that_is_asked_for_is_content(
    bench: Bench, template: str, grammar: Grammar, names: tuple[str, ...]
) -> None:
    bench.start(reply=CALL, chat_template=template)
    sampling = SamplingParams(temperature=0.0, grammar=grammar)
    log = bench.ended(bench.submit(ask(*names, sampling=sampling)))
    assert log.parts == (("content", CALL),)
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "stop"


@pytest.mark.parametrize("grammar", [OBJECT, LETTERS])
@pytest.mark.parametrize(
    ("template", "thought"), [(OPENED, "So {it} is.\n</think>"), (HERMES, "<think>Hm</think>\n\n")]
)
def test_a_form_holds_behind_the_reasoning(
    bench: Bench, template: str, thought: str, grammar: Grammar
) -> None:
    bench.start(reply=f"{thought}{CALL}", chat_template=template)
    sampling = SamplingParams(temperature=0.0, grammar=grammar)
    log = bench.ended(bench.submit(ask("weather", sampling=sampling)))
    assert [kind for kind, _ in log.parts] == ["reasoning", "content"]
    assert log.parts[1][1] == CALL
    assert not log.calls


def test_tags_in_an_answer_of_a_form_are_text(bench: Bench) -> None:
    said = '{"a": "<think>b</think> <tool_call>"}'
    bench.start(reply=f"Hm.</think>{said}", chat_template=OPENED)
    sampling = SamplingParams(temperature=0.0, grammar=OBJECT)
    log = bench.ended(bench.submit(ask("weather", sampling=sampling)))
    assert log.parts == (("reasoning", "Hm."), ("content", said))


def test_s05_a_pattern_that_can_not_be_read_is_refused_before_anything_is_said() -> None:
    param = "response_format.json_schema.schema"
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)"}}}
    grammar = Grammar(json.dumps(schema), kind="json_schema", param=param)
    for template in (CHATML_TEMPLATE, OPENED):
        one = Bench()
        try:
            one.start(reply=CALL, chat_template=template)
            log = one.ended(one.submit(ask(sampling=SamplingParams(grammar=grammar))))
        finally:
            one.stop()
        assert isinstance(log.terminal, Failed)
        assert log.terminal.code == "invalid_request"
        assert log.terminal.param == f"{param}.properties.a.pattern"
        assert (log.started, log.parts) == (None, ())


def test_nothing_stands_before_a_form_where_thoughts_are_content(bench: Bench) -> None:
    bench.start(reply=CALL, chat_template=OPENED)
    sampling = SamplingParams(temperature=0.0, grammar=OBJECT)
    whole = AnswerParams(splits_reasoning=False)
    log = bench.ended(bench.submit(ask(sampling=sampling, answer=whole)))
    assert log.parts == (("content", CALL),)


def test_a_grammar_may_end_the_reasoning_itself(bench: Bench) -> None:
    bench.start(reply="So it is.\n</think>\nYes.", chat_template=OPENED)
    text = '%llguidance {}\nstart: THOUGHT "</think>" "\\nYes."\nTHOUGHT: /[^<]*/'
    sampling = SamplingParams(temperature=0.0, grammar=Grammar(text, kind="lark"))
    log = bench.ended(bench.submit(ask(sampling=sampling)))
    assert log.parts == (("reasoning", "So it is."), ("content", "Yes."))


def test_an_answer_cut_in_its_reasoning_has_no_content(bench: Bench) -> None:
    bench.start(reply="So it is.\n</think>\nYes.", chat_template=OPENED)
    log = bench.ended(bench.submit(ask(limits=Limits(max_tokens=5))))
    assert log.parts == (("reasoning", "So it"),)
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "length"


def test_a_call_cut_at_the_limit_is_broken(bench: Bench) -> None:
    bench.start(reply=REPLY.partition("I look 😺. ")[2], chat_template=HERMES)
    log = bench.ended(bench.submit(ask("weather", limits=Limits(max_tokens=60))))
    assert [call.end for call in log.calls] == ["broken"]
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "length"


def test_no_tools_no_calls_and_no_reasoning_where_none_is_wanted(bench: Bench) -> None:
    bench.start(reply=REPLY, chat_template=HERMES)
    log = bench.ended(bench.submit(ask()))
    assert log.parts[0] == ("reasoning", "Naïve 漢字 first.")
    assert text_of(log) == REPLY.partition("</think>\n\n")[2]
    raw = bench.ended(bench.submit(ask(answer=AnswerParams(splits_reasoning=False))))
    assert raw.parts == (("content", REPLY),)


def test_one_call_where_several_are_not_wanted(bench: Bench) -> None:
    bench.start(reply=REPLY, chat_template=HERMES)
    params = AnswerParams(parallel_tool_calls=False)
    log = bench.ended(bench.submit(ask("weather", "clock", answer=params)))
    assert [call.name for call in log.calls] == ["weather"]
    assert json.loads(runs_of(log)[-1][1])["arguments"] == CALLS[0]


WEATHER = json.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                    "required": ["city", "days"],
                },
            },
        }
    ]
)


@pytest.mark.parametrize("said", ["Look: ", "", "<think>A <tool_call> {</think>"])
def test_a_call_that_the_model_begins_is_held_to_its_schema(bench: Bench, said: str) -> None:
    wrong = '<tool_call>\n{"name": "weather", "arguments": {"city": 7, "hours": []}}'
    bench.start(reply=said + wrong, chat_template=HERMES)
    prompt = ChatPrompt((Message("user", "hi"),), tools_json=WEATHER)
    log = bench.ended(bench.submit(generate(prompt=prompt, limits=Limits(max_tokens=400))))
    (call,) = log.calls[:1]
    assert (call.name, call.end) == ("weather", "complete")
    arguments = json.loads(next(text for kind, text in log.parts if kind == "tool_call"))
    assert set(arguments) == {"city", "days"}
    assert (type(arguments["city"]), type(arguments["days"])) == (str, int)


def test_a_schema_that_can_not_be_enforced_is_no_hindrance(bench: Bench) -> None:
    tool = {"name": "weather", "parameters": {"type": "object", "not": {"required": ["x"]}}}
    bench.start(
        reply='<tool_call>\n{"name": "weather", "arguments": {"y": 1}}\n</tool_call>',
        chat_template=HERMES,
    )
    tools_json = json.dumps([{"type": "function", "function": tool}])
    prompt = ChatPrompt((Message("user", "hi"),), tools_json=tools_json)
    log = bench.ended(bench.submit(generate(prompt=prompt)))
    assert [(call.name, call.end) for call in log.calls] == [("weather", "complete")]


def test_a_budget_ends_reasoning_with_a_message(bench: Bench) -> None:
    bench.start(reply="So it goes on and on, for ever.", chat_template=OPENED)
    answer = AnswerParams(reasoning_budget=5, reasoning_message=" Enough.")
    log = bench.ended(bench.submit(ask(answer=answer)))
    assert log.parts[0] == ("reasoning", "So it Enough.")
    assert log.parts[1][0] == "content"


def test_a_budget_cuts_no_call_that_is_made_in_reasoning(bench: Bench) -> None:
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    bench.start(reply=f"So {call}", chat_template=OPENED)
    budget = len("So <tool_call>")  # the mock has a token a character
    answer = AnswerParams(reasoning_budget=budget, reasoning_message=" Enough.")
    log = bench.ended(bench.submit(ask("weather", answer=answer)))
    assert log.parts == (("reasoning", "So"), ("tool_call", '{"city": "Paris"}'))
    assert [(c.name, c.end) for c in log.calls] == [("weather", "complete")]


def test_a_template_that_does_not_listen_thinks_all_the_same_no_more(bench: Bench) -> None:
    bench.start(reply="So it goes on and on, for ever.", chat_template=OPENED)
    off = ChatPrompt(
        (Message("user", "hi"),), template_kwargs_json=json.dumps({"enable_thinking": False})
    )
    log = bench.ended(bench.submit(generate(prompt=off)))
    assert [kind for kind, _ in log.parts] == ["content"]


@pytest.mark.parametrize("dies", [False, True])
def test_reasoning_ends_on_order_and_stays_ended(bench: Bench, dies: bool) -> None:
    deaf = Deaf(bench)
    thought = "So it goes on and on. " * 60
    bench.start(queue=deaf, reply=thought, chat_template=OPENED, delay_ms=10)
    request = ask(
        answer=AnswerParams(reasoning_control=True),
        reply=ReplyInfo("chatcmpl-1"),
        limits=Limits(max_tokens=300),  # 3 s: long enough for the order, and no longer
    )
    gid = bench.submit(request)
    bench.wait_text(gid, 5)
    if dies:
        deaf.is_cut = True
    assert bench.queue.end_reasoning(MODEL, "chatcmpl-1", "user:1") == "ok"
    if dies:
        bench.start(reply=thought, chat_template=OPENED)
    log = bench.ended(gid)
    assert [kind for kind, _ in log.parts] == ["reasoning", "content"]
    assert len(log.parts[0][1]) < 290


def test_an_answer_that_can_not_be_read_ends_alone(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = AnswerReader.read

    def fail(self: AnswerReader, event: Any) -> Any:
        if getattr(event, "text", "") == "N":
            raise RuntimeError("a mistake of ours")
        return read(self, event)

    bench.start(reply=REPLY, chat_template=HERMES, delay_ms=5)
    with monkeypatch.context() as patched:
        patched.setattr(AnswerReader, "read", fail)
        log = bench.ended(bench.submit(ask("weather")))
    assert isinstance(log.terminal, Failed)
    assert (log.terminal.code, log.terminal.retryable) == ("engine_failed", False)
    request = ask("weather", "clock")
    check_whole(bench.ended(bench.submit(request)), request)
