"""Reasoning and calls in the log: taken apart once, whoever goes on with the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inference.protocol.events import CallRef, Failed, Finished, Snapshot
from inference.protocol.fold import runs_of, text_of
from inference.protocol.params import Grammar, Limits, SamplingParams
from inference.protocol.requests import AnswerParams, ChatPrompt, GenerateRequest, Message
from inference.text.answer.reader import AnswerReader, call_ids
from inference.text.chat_template import CHATML_TEMPLATE
from tests.worker.conftest import Bench, generate
from tests.worker.test_resume import Deaf

# What tells the family, as a comment: the mock writes whatever its script says.
HERMES = CHATML_TEMPLATE + "{# <think> <tool_call> #}"
OPENED = HERMES + "{{ '<think>\n' }}"  # the template opens the reasoning itself
REPLY = (
    "<think>\nNaïve 漢字 first.\n</think>\n\nI look 😺. "
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich", "days": 2}}\n</tool_call>\n'
    '<tool_call>\n{"name": "clock"}\n</tool_call>'
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


@pytest.mark.parametrize(
    ("template", "grammar", "names"),
    [
        (OPENED, Grammar('{"type": "object"}', kind="json_schema"), ()),
        (OPENED, Grammar('{"type": "object"}', kind="json_schema"), ("weather",)),
        (OPENED, Grammar(r"\{.*\}", kind="regex"), ()),
        (OPENED, Grammar("%llguidance {}\nstart: /.*/", kind="lark"), ()),
        (OPENED, Grammar(f"root ::= {json.dumps(CALL)}"), ()),
        (LLAMA, Grammar('{"type": "object"}', kind="json_schema"), ("weather",)),
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
