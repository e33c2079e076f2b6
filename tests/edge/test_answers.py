"""What a model writes, from its text to the wire: however it is cut, whatever readers missed."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inference.edge.openai.options import ReplyOptions
from inference.edge.openai.render import ChoiceRenderer, Chunk, whole_reply
from inference.edge.steps import Steps
from inference.protocol.events import Delta, Entry, Event, Timings
from inference.protocol.fold import EMPTY, Log, fold
from inference.protocol.requests import ReplyInfo
from inference.text.answer.families import FAMILIES
from inference.text.answer.parser import AnswerParser
from inference.text.answer.reader import AnswerReader, call_ids
from inference.text.answer.reasoning_tags import THINK
from inference.text.answer.tools import Tool
from inference.worker.outlet import merge
from tests.edge.events import STARTED, finished

HERMES = FAMILIES["hermes"]
TOOLS = (Tool("weather"), Tool("clock"))
ANSWERS = (
    "Just text, with <b>tags</b> & a < b.\n\n",
    "<think>\nHm.\n</think>\n\nHello 😺!",
    # S11: a call behind and inside of reasoning; S03: a call without parameters, then one with
    '<think>Let me look.</think><tool_call>\n{"name": "clock"}\n</tool_call>\n'
    '<tool_call>\n{"name": "weather", "arguments": {"city": "Zürich \\"x\\"\\n"}}\n</tool_call>',
    '<think>So <tool_call>{"name": "clock", "arguments": {}}</tool_call> done</think>It is late.',
    'Look: <tool_call>{"name": "weather", "arguments": {"city": "Ro',
    'It is <tool_call>{"name": "nobody", "arguments": {}}</tool_call> really',
)


def reader() -> AnswerReader:
    form = replace(HERMES, reasoning=THINK)
    return AnswerReader(AnswerParser(form, tools=TOOLS, make_id=call_ids("gen-1")))


def pieces(text: str, cuts: Set[int]) -> list[str]:
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def log_of(text: str, cuts: Set[int], steps: Set[int] = frozenset()) -> list[Event]:
    """The log of an answer said in pieces, of which those of one step travel together."""
    made = reader()
    out: list[Event] = [STARTED]
    batch: list[Event] = []
    for index, piece in enumerate(pieces(text, cuts)):
        batch += made.read(Delta(piece, (index,)))
        if index in steps:
            out += merge(batch)
            batch = []
    return [*out, *merge([*batch, *made.read(finished())])]


def chunks_of(entries: Sequence[Entry], choice: ChoiceRenderer, steps: Steps) -> list[Chunk]:
    return [c for entry in entries for step in steps.feed(entry) for c in choice.render(step)]


def choice_of() -> ChoiceRenderer:
    return ChoiceRenderer(ReplyInfo("id", 1, "m", "f"), ReplyOptions())


def numbered(events: Sequence[Event]) -> list[Entry]:
    return [Entry(seq, event) for seq, event in enumerate(events)]


def reply_of(events: Sequence[Event]) -> Any:
    choice = choice_of()
    chunks = chunks_of(numbered(events), choice, Steps())
    return whole_reply([choice], chunks)["choices"][0]


CUTS = st.sets(st.integers(1, 150))


@given(st.sampled_from(ANSWERS), CUTS, CUTS)
def test_s04_the_reply_is_the_same_for_every_cutting(
    text: str, cuts: set[int], steps: set[int]
) -> None:
    assert reply_of(log_of(text, cuts, steps)) == reply_of(log_of(text, set()))


@given(st.sampled_from(ANSWERS), CUTS, CUTS, st.integers(0, 40), st.integers(0, 40))
def test_a_snapshot_in_between_costs_nothing(
    text: str, cuts: set[int], steps: set[int], seen: int, reset_at: int
) -> None:
    entries = numbered(log_of(text, cuts, steps))
    seen = min(seen, len(entries) - 1)
    reset_at = min(max(seen, reset_at), len(entries) - 1)
    choice, made = choice_of(), Steps()
    chunks = chunks_of(entries[:seen], choice, made)
    for step in made.reset(fold(EMPTY, entries[: reset_at + 1])):
        chunks += choice.render(step)
    chunks += chunks_of(entries[reset_at + 1 :], choice, made)
    assert whole_reply([choice], chunks)["choices"][0] == reply_of(log_of(text, set()))


@given(st.sampled_from(ANSWERS), CUTS, st.integers(0, 60))
def test_an_engine_that_goes_on_says_the_rest(text: str, cuts: set[int], at: int) -> None:
    first, second = reader(), reader()
    events: list[Event] = [STARTED]
    for index, piece in enumerate(pieces(text, cuts)):
        if index < at:
            events += first.read(Delta(piece, (index,)))
            second.skip(piece)
        else:
            events += second.read(Delta(piece, (index,)))
    events += second.read(finished())
    assert reply_of(events) == reply_of(log_of(text, set()))


@given(st.sampled_from(ANSWERS), CUTS)
def test_no_token_is_lost_and_no_delta_is_empty(text: str, cuts: set[int]) -> None:
    log = Log()
    for event in log_of(text, cuts):
        log.add(event)
    assert log.token_ids == list(range(len(pieces(text, cuts))))
    choice = choice_of()
    chunks = chunks_of(numbered(log_of(text, cuts)), choice, Steps())
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert all(any(delta.values()) for delta in deltas[1:-1])


def test_s11_reasoning_content_and_calls_are_apart() -> None:
    reply = reply_of(log_of(ANSWERS[2], set()))
    message = reply["message"]
    assert (message["reasoning_content"], message["content"]) == ("Let me look.", "")
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "clock", "arguments": "{}"},
        {"name": "weather", "arguments": '{"city": "Zürich \\"x\\"\\n"}'},
    ]
    assert reply["finish_reason"] == "tool_calls"
    inside = reply_of(log_of(ANSWERS[3], set()))["message"]
    assert inside["tool_calls"][0]["function"] == {"name": "clock", "arguments": "{}"}
    assert (inside["reasoning_content"], inside["content"]) == ("So  done", "It is late.")


def test_a_broken_call_is_no_reason_to_call() -> None:
    reply = reply_of(log_of(ANSWERS[4], set()))
    assert reply["finish_reason"] == "stop"
    (call,) = reply["message"]["tool_calls"]
    assert call["function"]["arguments"] == '{"city": "Ro'


def test_one_call_is_all_that_was_asked_for() -> None:
    only = AnswerReader(AnswerParser(HERMES, tools=TOOLS, make_id=call_ids("gen-1")), one_call=True)
    text = ANSWERS[2].removeprefix("<think>Let me look.</think>")
    reply = reply_of([STARTED, *only.read(Delta(text, (1,))), *only.read(finished())])
    assert [c["function"]["name"] for c in reply["message"]["tool_calls"]] == ["clock"]
    assert json.loads(reply["message"]["tool_calls"][0]["function"]["arguments"]) == {}


def test_times_stay_with_the_tokens_that_they_are_of() -> None:
    times = Timings(prefill_ms=3.0, decode_ms=5.0)
    raw = Delta("<think>Hm</think>It is late", (1, 2), timings=times)
    thought, text = reader().read(raw)
    assert thought == Delta("Hm", (1, 2), kind="reasoning", timings=times)
    assert text == Delta("It is late", ())
