"""The events of a message, and that they say what the whole message says, however they are cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.edge.anthropic.options import ReplyOptions, options_from_json, options_to_json
from inference.edge.anthropic.render import MessageWire
from inference.edge.steps import Steps
from inference.edge.wire import Frame
from inference.protocol.events import CallRef, Delta, Entry, Event
from inference.protocol.fold import EMPTY, fold
from inference.protocol.requests import GenerateRequest, ReplyInfo, TextPrompt
from tests.edge.anthropic.wire import Client
from tests.edge.events import STARTED, delta, finished
from tests.edge.test_answers import ANSWERS, CUTS, log_of, numbered
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]


def called(text: str, index: int = 0, call_id: str = "", name: str = "", end: Any = None) -> Delta:
    """A piece of a call."""
    return Delta(text, (1,), kind="tool_call", call=CallRef(index, call_id, name, end))


ALL_KINDS: tuple[Event, ...] = (
    STARTED,
    Delta("Hm", (1,), kind="reasoning"),
    Delta("m.", (1,), kind="reasoning"),
    delta("I look."),
    called("", 0, "call_a", "weather"),
    called('{"city":'),
    called(' "Zürich 😺"}'),
    called("", end="complete"),
    called("{}", 1, "call_b", "clock", "complete"),
    finished("tool_calls"),
)
WEATHER = {"type": "tool_use", "id": "call_a", "name": "weather"}
CLOCK = {"type": "tool_use", "id": "call_b", "name": "clock"}
TOOLS = [{"name": name, "input_schema": {}} for name in ("weather", "clock")]


def started(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index: int, kind: str, **fields: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stopped(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


async def test_every_kind_of_block_in_order(says: Says, client: Client) -> None:
    says(*ALL_KINDS)
    stream = await client.stream(tools=TOOLS)
    signature = stream.data[4]["delta"]["signature"]
    assert stream.data[1:-2] == [
        started(0, type="thinking", thinking="", signature=""),
        more(0, "thinking_delta", thinking="Hm"),
        more(0, "thinking_delta", thinking="m."),
        more(0, "signature_delta", signature=signature),
        stopped(0),
        started(1, type="text", text=""),
        more(1, "text_delta", text="I look."),
        stopped(1),
        started(2, **WEATHER, input={}),
        more(2, "input_json_delta", partial_json='{"city":'),
        more(2, "input_json_delta", partial_json=' "Zürich 😺"}'),
        stopped(2),
        started(3, **CLOCK, input={}),
        more(3, "input_json_delta", partial_json="{}"),
        stopped(3),
    ]
    assert signature
    assert stream.data[0]["message"]["usage"] == {
        "input_tokens": 6,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 0,
    }
    assert stream.data[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert stream.data[-2]["usage"]["output_tokens"] == 3
    assert stream.data[-1] == {"type": "message_stop"}
    assert len(set(stream.ids)) == len(stream.ids) == len(stream.data)


async def test_the_whole_message_says_the_same(says: Says, client: Client) -> None:
    says(*ALL_KINDS)
    streamed = (await client.stream(tools=TOOLS)).message
    _, whole = await client.ask(tools=TOOLS)
    assert whole["content"] == [
        {"type": "thinking", "thinking": "Hmm.", "signature": whole["content"][0]["signature"]},
        {"type": "text", "text": "I look."},
        {**WEATHER, "input": {"city": "Zürich 😺"}},
        {**CLOCK, "input": {}},
    ]
    assert {**streamed, "id": whole["id"]} == whole


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        (finished(), "end_turn", None),
        (finished("length"), "max_tokens", None),
        (finished(stop="END"), "stop_sequence", "END"),
        (finished("tool_calls"), "tool_use", None),
    ],
)
async def test_why_it_stops(
    says: Says, client: Client, end: Event, reason: str, sequence: str | None
) -> None:
    says(STARTED, delta("x"), end)
    expected = (reason, sequence)
    for message in ((await client.stream()).message, (await client.ask())[1]):
        assert (message["stop_reason"], message["stop_sequence"]) == expected


async def test_an_answer_of_nothing_has_no_blocks(says: Says, client: Client) -> None:
    says(STARTED, finished("length"))
    message = (await client.stream()).message
    assert (message["content"], message["stop_reason"]) == ([], "max_tokens")
    assert (await client.ask())[1]["content"] == []


async def test_a_call_that_was_cut_has_no_input_and_is_no_reason(
    says: Says, client: Client
) -> None:
    says(
        STARTED, called('{"a": "Ro', 0, "call_a", "f"), called("", end="broken"), finished("length")
    )
    for message in ((await client.stream()).message, (await client.ask())[1]):
        assert message["content"] == [{**WEATHER, "name": "f", "input": {}}]
        assert message["stop_reason"] == "max_tokens"


async def test_thoughts_can_be_left_out(says: Says, client: Client) -> None:
    says(*ALL_KINDS)
    thinking = {"type": "adaptive", "display": "omitted"}
    for message in (
        (await client.stream(thinking=thinking)).message,
        (await client.ask(thinking=thinking))[1],
    ):
        thoughts, text, *_ = message["content"]
        assert (thoughts["type"], thoughts["thinking"]) == ("thinking", "")
        assert thoughts["signature"]
        assert text["text"] == "I look."


async def test_what_was_left_out_is_said(says: Says, client: Client) -> None:
    says(STARTED, delta("x"), finished())
    tools = [*TOOLS, {"type": "web_search_20250305", "name": "web_search"}]
    said = ["tools[2]: web_search_20250305 isn't run here and was left out"]
    assert (await client.stream(tools=tools)).message["warnings"] == said
    assert (await client.ask(tools=tools))[1]["warnings"] == said
    assert "warnings" not in (await client.ask(tools=TOOLS))[1]


def message_wire() -> MessageWire:
    reply = ReplyInfo("msg_1", 1, "m", "f", options_to_json(ReplyOptions()))
    return MessageWire(
        GenerateRequest("g", "m", "o", "o", TextPrompt(""), 1, 0.0, 1.0, reply=reply)
    )


def frames_of(entries: Sequence[Entry], wire: MessageWire, steps: Steps) -> list[Frame]:
    return [f for e in entries for step in steps.feed(e) for f in wire.render(0, step)]


def told(events: Sequence[Event]) -> dict[str, Any]:
    wire = message_wire()
    return wire.whole(frames_of(numbered(events), wire, Steps()))


@given(st.sampled_from(ANSWERS), CUTS, CUTS)
def test_s04_the_message_is_the_same_for_every_cutting(
    text: str, cuts: set[int], steps: set[int]
) -> None:
    assert told(log_of(text, cuts, steps)) == told(log_of(text, set()))


@given(st.sampled_from(ANSWERS), CUTS, st.integers(0, 40), st.integers(0, 40))
def test_a_snapshot_in_between_costs_nothing(
    text: str, cuts: set[int], seen: int, reset_at: int
) -> None:
    entries = numbered(log_of(text, cuts))
    seen = min(seen, len(entries) - 1)
    reset_at = min(max(seen, reset_at), len(entries) - 1)
    wire, steps = message_wire(), Steps()
    frames = frames_of(entries[:seen], wire, steps)
    for step in steps.reset(fold(EMPTY, entries[: reset_at + 1])):
        frames += wire.render(0, step)
    frames += frames_of(entries[reset_at + 1 :], wire, steps)
    assert wire.whole(frames) == told(log_of(text, set()))


@given(st.sampled_from(ANSWERS), CUTS)
def test_blocks_are_numbered_densely_and_never_overlap(text: str, cuts: set[int]) -> None:
    wire = message_wire()
    frames = frames_of(numbered(log_of(text, cuts)), wire, Steps())
    assert [frame.data["type"] for frame in frames][-2:] == ["message_delta", "message_stop"]
    assert all(frame.event == frame.data["type"] for frame in frames)
    open_at: int | None = None
    num_blocks = 0
    for event in (frame.data for frame in frames[1:-2]):
        match event["type"]:
            case "content_block_start":
                assert (open_at, event["index"]) == (None, num_blocks)
                open_at, num_blocks = event["index"], num_blocks + 1
            case "content_block_delta":
                assert event["index"] == open_at
                assert all(event["delta"].values())
            case _:
                assert event == stopped(open_at if open_at is not None else -1)
                open_at = None
    assert open_at is None


def test_options_travel() -> None:
    for options in (ReplyOptions(), ReplyOptions(True, ("a", "b"))):
        assert options_from_json(options_to_json(options)) == options
    later = json.dumps({"hides_thinking": True, "new": 1})
    assert options_from_json(later) == ReplyOptions(hides_thinking=True)
