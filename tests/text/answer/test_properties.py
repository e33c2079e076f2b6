"""What holds for every family and every text, however strange."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inference.text.answer.events import (
    AnswerEvent,
    CallArguments,
    CallEnd,
    CallStart,
    Reasoning,
    Text,
    joined,
    whole,
)
from inference.text.answer.families import FAMILIES, THINK, AnswerFormat
from tests.text.answer.answers import TOOLS, format_of, parser, read

CASES = [
    json.loads(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parent / "cases").glob("*.json"))
]
# Pieces that texts are made of besides a family's own markers.
PIECES = (
    *(
        "get_weather",
        "get_time",
        "nope",
        "Paris",
        "city",
        "days",
        "name",
        "arguments",
        "parameters",
    ),
    *("{", "}", "[", "]", "(", ")", ":", ",", ";", '"', "'", "=", "\\", "<", ">", "/", "|", "`"),
    *("\n", " ", "  ", "\t", "1", "-2.5", "true", "None", "null", "é", "👩‍💻", "\ud83d"),
    *('{"name": "get_weather", "arguments": {', '{"city": "Paris"}', '"tool_call": '),
    *("get_weather(", "function", "```json\n", "functions.", ":0", "to=functions.get_time "),
    *('name="', 'key="', 'string="true"', "response", '"response": "'),
)
MAX_SCANS = 64  # characters looked at for each character of a text
BIG = 6_000
NUM_EXAMPLES = 25


def _forms() -> list[Any]:
    found = {told["template"]: format_of(told["template"]) for told in CASES}
    return [pytest.param(form, id=name) for name, form in found.items()]


FORMS = _forms()


def _texts(form: AnswerFormat) -> st.SearchStrategy[str]:
    tags = (form.reasoning.opener, form.reasoning.closer) if form.reasoning else ()
    pieces = [*form.markers, *tags, *PIECES]
    return st.lists(st.sampled_from(pieces) | st.text(max_size=3), max_size=25).map("".join)


def _whole_cases(form: AnswerFormat) -> list[str]:
    return [c["text"] for told in CASES if told["family"] == form.family for c in told["cases"]]


def _check_order(events: list[AnswerEvent]) -> None:
    """Calls come one behind the other, each started and ended once, and no event is empty."""
    open_call: int | None = None
    num_calls = 0
    for event in events:
        if isinstance(event, CallStart):
            assert open_call is None
            assert event.index == num_calls
            assert event.name in {tool.name for tool in TOOLS}
            open_call, num_calls = event.index, num_calls + 1
        elif isinstance(event, CallArguments | CallEnd):
            assert event.index == open_call
            if isinstance(event, CallEnd):
                open_call = None
        if isinstance(event, Text | Reasoning | CallArguments):
            assert event.text
    assert open_call is None


@pytest.mark.parametrize("form", FORMS)
def test_a_reading_never_depends_on_cuts_and_never_fails(form: AnswerFormat) -> None:
    @settings(
        max_examples=NUM_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(
        _texts(form),
        st.data(),
        st.sampled_from(["stop", "length"]),
        st.booleans(),
    )
    def check(text: str, data: st.DataObject, finish: Any, is_opened: bool) -> None:
        opened = form.reasoning.opener if form.reasoning and is_opened else ""
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))

        events = read(form, text, cuts, tools=TOOLS, opened=opened, finish=finish)

        assert events == read(form, text, tools=TOOLS, opened=opened, finish=finish)
        assert events == read(
            form, text, range(1, len(text)), tools=TOOLS, opened=opened, finish=finish
        )
        _check_order(events)
        for call in whole(events).calls:
            if call.complete:
                assert isinstance(json.loads(call.arguments), dict)

    check()


@pytest.mark.parametrize("form", FORMS)
def test_a_broken_answer_reads_the_same_for_every_cutting(form: AnswerFormat) -> None:
    """Answers that are nearly right: a piece of one of the cases left out, or put in twice."""

    @settings(
        max_examples=NUM_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(st.sampled_from(_whole_cases(form)), st.data(), st.sampled_from(["stop", "length"]))
    def check(text: str, data: st.DataObject, finish: Any) -> None:
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        text = data.draw(st.sampled_from([text[:start] + text[end:], text[:end] + text[start:]]))
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))

        events = read(form, text, tools=TOOLS, finish=finish)

        assert read(form, text, cuts, tools=TOOLS, finish=finish) == events
        assert read(form, text, range(1, len(text)), tools=TOOLS, finish=finish) == events
        _check_order(events)
        for call in whole(events).calls:
            if call.complete:
                assert isinstance(json.loads(call.arguments), dict)

    check()


@pytest.mark.parametrize("form", [f for f in FORMS if not f.values[0].is_harmony])
def test_text_without_calls_is_never_lost(form: AnswerFormat) -> None:
    """All that is no markup and no white space comes back, in order, as text or reasoning."""
    tags = (form.reasoning.opener, form.reasoning.closer) if form.reasoning else ()
    markup = sorted({*form.markers, *tags, *(t.strip() for t in tags)}, key=len, reverse=True)

    def words_of(text: str) -> str:
        text = "".join(text.split())
        for marker in markup:
            text = text.replace("".join(marker.split()), "")
        return text

    @settings(
        max_examples=NUM_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(_texts(form))
    def check(text: str) -> None:
        events = read(form, text)
        shown = "".join(e.text for e in events if isinstance(e, Text | Reasoning))

        assert words_of(shown) == words_of(text)

    check()


def _adversarial(form: AnswerFormat) -> list[str]:
    """What costs most where something is looked for again and again."""
    texts = [marker * 3 for marker in form.markers]
    texts += [marker + " " * 100 for marker in form.markers]
    texts += [marker + '{"name": "get_weather", "arguments": ' for marker in form.markers]
    texts += [marker + '{"arguments": {"a": "' for marker in form.markers]
    texts += [marker[:-1] for marker in form.markers]
    texts += [marker + "get_weather" for marker in form.markers]
    texts += [text[: len(text) * 2 // 3] for text in _whole_cases(form)]
    return [*texts, "<", "[", "{", '"', "\\", "[[", '{"name":', " ", "`", "get_weather("]


@pytest.mark.parametrize("form", FORMS)
def test_the_work_grows_with_the_text_and_not_faster(form: AnswerFormat) -> None:
    for unit in filter(None, _adversarial(form)):
        text = (unit * (BIG // len(unit) + 1))[:BIG]
        for cuts in ([], range(1, BIG, 7)):
            reader = parser(form, TOOLS)
            start = 0
            for end in (*cuts, BIG):
                reader.push(text[start:end])
                start = end
            reader.finish()

            assert reader.scanned < MAX_SCANS * BIG, unit


@pytest.mark.parametrize("form", FORMS)
def test_text_waits_only_for_a_marker(form: AnswerFormat) -> None:
    """Words come as they are written; what waits is shorter than the longest marker."""
    tags = (form.reasoning.opener, form.reasoning.closer) if form.reasoning else ()
    longest = max(map(len, (*form.markers, *tags, *form.calls_by_opener)), default=0)
    reader = parser(form, TOOLS)
    lead = "<|channel|>final<|message|>" if form.is_harmony else "Well, "
    text = "this < is [ no { call | at all `_ " * 20
    reader.push(lead)
    shown = 0
    for pushed, char in enumerate(text, start=1):
        shown += sum(len(e.text) for e in reader.push(char) if isinstance(e, Text))
        assert pushed - shown <= longest + 2


def test_arguments_come_while_they_are_written() -> None:
    """Of the arguments of a call, nothing but the last few characters waits."""
    for told in CASES:
        form = format_of(told["template"])
        text = next(c["text"] for c in told["cases"] if c["name"] == "unicode")
        word = "Grüße"
        reader = parser(form, TOOLS, form.opened_by(told.get("prompt", "")))
        events = reader.push(text[: text.index(word) + len(word)])

        answer = whole([*events, CallEnd(0, complete=False)])
        assert answer.calls[0].name == "note", told["template"]
        assert answer.calls[0].arguments.endswith(word), told["template"]


@pytest.mark.parametrize("form", FAMILIES.values(), ids=FAMILIES)
def test_markup_around_nothing_leaves_nothing(form: AnswerFormat) -> None:
    """Reasoning that is opened and closed at once, as when thinking is off."""
    tags = form.reasoning or THINK
    if form.is_harmony or form.reasoning is None:
        return
    text = f"{tags.opener}\n\n{tags.closer}\n\nHello!"

    assert read(form, text, tools=TOOLS) == [Text("Hello!")]


def test_joined_events_fold_to_the_same_answer() -> None:
    events: list[AnswerEvent] = [
        *(Reasoning("a"), Reasoning("b"), Text("c"), Text("d"), CallStart(0, "x", "get_time")),
        *(CallArguments(0, "{"), CallArguments(0, "}"), CallEnd(0, complete=True), Text("e")),
    ]

    assert len(joined(events)) == 6
    assert whole(joined(events)) == whole(events)
    assert whole(events).text == "cde"
