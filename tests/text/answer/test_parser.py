"""Reasoning by every kind of tags, ids, and what models do besides the format they were taught."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from inference.text.answer.events import (
    AnswerEvent,
    CallArguments,
    CallEnd,
    CallStart,
    Reasoning,
    Text,
    whole,
)
from inference.text.answer.families import (
    COMMAND_R7B,
    GENERIC,
    HARMONY,
    HERMES,
    KIMI_K2,
    LLAMA,
    QWEN3_CODER,
    AnswerFormat,
)
from inference.text.answer.reasoning_tags import REASONING_TAGS, THINK, ReasoningTags
from tests.text.answer.answers import TOOLS, parser, read

PARIS = '{"city": "Paris"}'
THINKER = replace(HERMES, reasoning=THINK)
WEATHER: list[AnswerEvent] = [
    CallStart(0, "call_0", "get_weather"),
    CallArguments(0, PARIS),
    CallEnd(0, complete=True),
]


def calls_of(form: AnswerFormat, text: str) -> list[tuple[str, str, bool]]:
    """(name, arguments, complete) of each call in `text`."""
    answer = whole(read(form, text, tools=TOOLS))
    return [(call.name, call.arguments, call.complete) for call in answer.calls]


@pytest.mark.parametrize("tags", REASONING_TAGS, ids=lambda tags: tags.closer)
@pytest.mark.parametrize("is_opened", [True, False])
def test_reasoning_stands_between_tags(tags: ReasoningTags, is_opened: bool) -> None:
    form = replace(GENERIC, reasoning=tags)
    opened = tags.opener if is_opened else ""
    text = ("" if is_opened else tags.opener) + f"\n So I\nthink. \n{tags.closer}\n\nHello!"

    events = read(form, text, tools=TOOLS, opened=opened)

    assert events == [Reasoning("So I\nthink."), Text("Hello!")]
    unclosed = text.partition(tags.closer)[0]
    assert read(form, unclosed, tools=TOOLS, opened=opened)[0] == Reasoning("So I\nthink. \n")


def test_tags_that_are_text_mean_nothing_behind_text() -> None:
    text = "The tags <think> and </think> stand around thoughts."

    assert read(THINKER, text, tools=TOOLS) == [Text(text)]


def test_a_closing_tag_that_nobody_opened_is_left_out_in_front() -> None:
    assert read(THINKER, "</think>\n\nHello!", tools=TOOLS) == [Text("Hello!")]


def test_blocks_of_reasoning_stay_apart() -> None:
    form = replace(GENERIC, reasoning=ReasoningTags("[THINK]", "[/THINK]", anywhere=True))

    events = read(form, "[THINK]One.[/THINK]Hello,[THINK]Two.[/THINK] you!", tools=TOOLS)

    assert whole(events).reasoning == "One.\n\nTwo."
    assert whole(events).text == "Hello, you!"


def test_reasoning_may_be_left_in_the_text() -> None:
    text = "<think>So.</think>Hello!"

    assert read(THINKER.without_reasoning(), text, tools=TOOLS) == [Text(text)]


@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call>{{"name": "get_weather", "arguments": {PARIS}}}</tool_call>',
        f'<tool_call>{{"arguments": {PARIS}, "name": "get_weather"}}</tool_call>',
        f'<tool_call>[{{"name": "get_weather", "arguments": {PARIS}}}]</tool_call>',
        '<tool_call>{"type": "function", "function": '
        f'{{"name": "get_weather", "arguments": {PARIS}}}}}</tool_call>',
        f'<tool_call>{{"name": "get_weather", "arguments": {json.dumps(PARIS)}}}</tool_call>',
        f'<tool_call>{{"name": "get_weather", "parameters": {PARIS}}}',
        f'<tool_call>{{"name": "get_weather", "arguments": {PARIS}, "note": [1]}}</tool_call>',
    ],
)
def test_a_call_as_an_object_is_found_in_any_form(text: str) -> None:
    assert read(HERMES, text, tools=TOOLS) == WEATHER


@pytest.mark.parametrize(
    "body", ['{"name": "get_time"}', '{"name": "get_time", "arguments": null}']
)
def test_missing_arguments_are_an_empty_object(body: str) -> None:
    assert calls_of(HERMES, f"<tool_call>{body}</tool_call>") == [("get_time", "{}", True)]


@pytest.mark.parametrize(
    "body",
    [
        '{"name": "get_weather", "arguments": [1]}',
        '{"name": "get_weather", "arguments": "Paris"}',
        '{"name": ["get_weather"], "arguments": {}}',
        '{"arguments": {}}',
        '{"name": "get_weather"',
        "{" + '"function": {' * 3000,
        '{"arguments": {"a": "' + "x" * 70_000 + '"}, "name": "get_weather"}',
    ],
    ids=lambda body: body[:40],
)
def test_what_is_no_call_stays_text(body: str) -> None:
    text = f"<tool_call>{body}</tool_call>"

    assert read(HERMES, text, tools=TOOLS) == [Text(text)]


def test_a_broken_call_ends_incomplete_and_text_goes_on() -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": Paris}}</tool_call>\nSorry.'

    answer = whole(read(HERMES, text, tools=TOOLS))

    assert [(c.arguments, c.complete) for c in answer.calls] == [('{"city": ', False)]
    assert answer.text.endswith("Sorry.")
    assert "tool_call" not in answer.text


def test_ids_are_the_model_s_own_where_its_format_has_them() -> None:
    def ids(form: AnswerFormat, text: str) -> list[str]:
        return [call.id for call in whole(read(form, text, tools=TOOLS)).calls]

    kimi = "<|tool_call_begin|>functions.get_time:3<|tool_call_argument_begin|>{}<|tool_call_end|>"
    assert ids(KIMI_K2, kimi) == ["functions.get_time:3"]
    command = '<|START_ACTION|>[{"tool_call_id": "%s", "tool_name": "get_time", "parameters": {}}]'
    assert ids(COMMAND_R7B, command % "7") == ["7"]
    for strange in ("", "ü", "x" * 65, "a\\nb"):
        assert ids(COMMAND_R7B, command % strange) == ["call_0"]


def test_bare_objects_are_calls_only_where_an_answer_may_begin() -> None:
    call = f'{{"name": "get_weather", "parameters": {PARIS}}}'

    assert calls_of(LLAMA, f"\n {call}") == [("get_weather", PARIS, True)]
    assert calls_of(LLAMA, f"So: {call}") == []
    assert calls_of(LLAMA, f"{call}\n{call}") == [("get_weather", PARIS, True)] * 2


def test_a_call_whose_wrapper_was_forgotten_is_a_call() -> None:
    text = "Now:\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>"

    assert read(QWEN3_CODER, text, tools=TOOLS) == [Text("Now:"), *WEATHER]


def test_an_envelope_s_text_is_text_while_it_is_written() -> None:
    reader = parser(GENERIC, TOOLS)

    assert reader.push('{"response": "Say \\"hi') == [Text('Say "hi')]
    assert reader.push("\\ud83d\\ude00\\n") == [Text("😀")]
    assert reader.push('\\ud83d!"}') == [Text("\n\ufffd!")]
    assert reader.finish() == []


def test_an_envelope_cut_in_its_text_keeps_what_was_written() -> None:
    assert read(GENERIC, '{"response": "Hello, wor', tools=TOOLS, finish="length") == [
        Text("Hello, wor")
    ]


def test_white_space_stays_between_words_and_goes_next_to_markup() -> None:
    call = f'<tool_call>{{"name": "get_weather", "arguments": {PARIS}}}</tool_call>'

    assert whole(read(HERMES, f"  a \n{call} b", tools=TOOLS)).text == "  a \n b"
    assert whole(read(HERMES, f"\n{call}\n", tools=TOOLS)).text == ""
    assert whole(read(HERMES, "\n a \n\n", tools=TOOLS)).text == "\n a \n\n"
    assert whole(read(HERMES, "a" + " " * 5000, tools=TOOLS)).text == "a" + " " * 5000


def test_a_head_too_long_to_be_one_is_text() -> None:
    text = "so " * 200

    for finish in ("stop", "length"):
        answer = whole(read(HARMONY, f"<|channel|>final {text}", tools=TOOLS, finish=finish))
        assert answer.text.split() == ["final", *text.split()]


def test_nothing_is_nothing() -> None:
    reader = parser(THINKER, TOOLS, "<think>")

    assert reader.push("") == []
    assert reader.finish() == []
    assert reader.finish() == []
