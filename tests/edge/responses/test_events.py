"""Whatever an answer is made of: a stream is contiguous, its end says what its deltas said, and it
is told again from what the database keeps, to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from inference.edge.responses.options import ResponseOptions, options_to_json
from inference.edge.responses.render import ResponsesWire
from inference.edge.responses.stored import frames_of
from inference.edge.steps import Steps
from inference.protocol.events import (
    CallRef,
    Cancelled,
    Delta,
    Entry,
    Event,
    Failed,
    Finished,
    Terminal,
    Timings,
    Usage,
)
from inference.protocol.fold import EMPTY, fold, runs_of
from inference.protocol.requests import ReplyInfo
from inference.registry.response_log import cuts_of, events_of, is_cut_known
from tests.edge.events import STARTED, logprobs
from tests.edge.responses.events import events_of as read_events

REPLY = ReplyInfo("resp_" + "a" * 32, 1_800_000_000, "m", "f")
USAGE = Usage(10, 90, 4)
TEXTS = st.lists(st.text(max_size=3), max_size=4)
RUNS = st.lists(
    st.tuples(st.sampled_from(["content", "reasoning", "call", "cut"]), TEXTS), max_size=5
)
ENDS: st.SearchStrategy[Terminal] = st.sampled_from(
    [
        Finished("stop", USAGE, Timings(1.0, 600.0, 900.0)),
        Finished("length", USAGE),
        Failed("engine_failed", "no"),
        Cancelled("user", USAGE),
    ]
)


def log_of(runs: Sequence[tuple[str, list[str]]], end: Terminal) -> list[Entry]:
    """A log of such runs; a call begins and ends with deltas without text, a cut one doesn't
    end."""
    events: list[Event] = [STARTED]
    num_calls = 0
    for kind, texts in runs:
        if kind in ("content", "reasoning"):
            deltas = [
                Delta(text, (1,), kind=kind, logprobs=(logprobs("x"),))  # type: ignore[arg-type]
                for text in texts
            ]
        else:
            call = CallRef(num_calls, f"call_{num_calls}", "f")
            deltas = [Delta("", (1,), kind="tool_call", call=call)]
            later = CallRef(num_calls)
            deltas += [Delta(text, (1,), kind="tool_call", call=later) for text in texts]
            if kind == "call":
                end_of_call = CallRef(num_calls, end="complete")
                deltas.append(Delta("", (), kind="tool_call", call=end_of_call))
            num_calls += 1
        events += deltas
    return [Entry(seq, event) for seq, event in enumerate([*events, end])]


def told(
    entries: Sequence[Entry], options: ResponseOptions | None = None, after: int = -1
) -> bytes:
    """The bytes of the stream."""
    reply = ReplyInfo(
        REPLY.reply_id,
        REPLY.created_at,
        REPLY.model_name,
        options_json=options_to_json(options or ResponseOptions()),
    )
    wire, steps = ResponsesWire(reply, after=after), Steps()
    frames = [f for entry in entries for f in frames_of(wire, steps.feed(entry))]
    return b"".join(wire.encoding.frame(frame, None) for frame in frames)


@given(runs=RUNS, end=ENDS, with_summary=st.booleans())
def test_a_stream_is_whole(
    runs: list[tuple[str, list[str]]], end: Terminal, with_summary: bool
) -> None:
    got = read_events(told(log_of(runs, end), ResponseOptions(with_summary=with_summary)))
    assert got.names[:2] == ["response.created", "response.in_progress"]
    open_items: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    done: list[dict[str, Any]] = []
    for event in got.data:
        name = event["type"].removeprefix("response.")
        if name == "output_item.added":
            assert event["output_index"] == len(done)
            open_items = {event["output_index"]: event["item"]}
            texts[event["output_index"]] = ""
        elif name == "output_item.done":
            assert event["item"]["id"] == open_items.pop(event["output_index"])["id"]
            done.append(event["item"])
        elif "output_index" in event:
            assert event["item_id"] == open_items[event["output_index"]]["id"]
            if name.endswith(".delta"):
                assert event["delta"]
                texts[event["output_index"]] += event["delta"]
    assert not open_items
    assert got.response["output"] == done
    for index, item in enumerate(done):
        parts = item.get("content") or item.get("summary")
        whole = item["arguments"] if item["type"] == "function_call" else parts[0]["text"]
        assert whole == texts[index]


@given(runs=RUNS, end=ENDS, has_logprobs=st.booleans())
def test_it_is_told_again_from_what_is_kept(
    runs: list[tuple[str, list[str]]], end: Terminal, has_logprobs: bool
) -> None:
    options = ResponseOptions(logprobs=has_logprobs, top=1)
    entries = log_of(runs, end)
    kept = cuts_of(entries)
    assert is_cut_known(kept)
    # NUL, which databases take none of, is another character in both.
    parts = [(k, text.replace("\0", "\ufffd")) for k, text in runs_of(fold(EMPTY, entries))]
    again = events_of(parts, kept, Failed("engine_failed", "unknown"))
    live = told(entries, options)
    assert told([Entry(n, event) for n, event in enumerate(again)], options) == live
    num_events = len(read_events(live).data)
    for after in range(num_events):
        rest = told([Entry(n, event) for n, event in enumerate(again)], options, after)
        assert rest == told(entries, options, after)
        assert live.endswith(rest)
        assert len(read_events(rest, after + 1).data) == num_events - after - 1


@given(runs=RUNS, end=ENDS)
def test_without_its_cuts_each_text_comes_in_one_delta(
    runs: list[tuple[str, list[str]]], end: Terminal
) -> None:
    entries = log_of(runs, end)
    before = fold(EMPTY, entries[:-1])
    kept = cuts_of(entries[-1:], before)
    assert not is_cut_known(kept)
    again = events_of(runs_of(fold(EMPTY, entries)), kept, Failed("engine_failed", "unknown"))
    got = read_events(told([Entry(n, event) for n, event in enumerate(again)]))
    for item in range(len(got.response["output"])):
        deltas = [e for e in got.data if e["type"].endswith(".delta") and e["output_index"] == item]
        assert len(deltas) <= 1
    live = read_events(told(entries)).response
    assert _texts(got.response) == _texts(live)
    assert got.response["status"] == live["status"]


def _texts(response: dict[str, Any]) -> list[str]:
    return [
        item["arguments"] if item["type"] == "function_call" else item["content"][0]["text"]
        for item in response["output"]
    ]
