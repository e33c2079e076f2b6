"""Behind any event a stream goes on: byte for byte, and in other pieces where the log was cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.edge.anthropic.options import ReplyOptions as MessageOptions
from inference.edge.anthropic.options import options_to_json as message_json
from inference.edge.anthropic.render import MessageWire
from inference.edge.openai.options import ReplyOptions, options_to_json
from inference.edge.openai.render import whole_reply
from inference.edge.openai.wire import OpenAIWire
from inference.edge.places import EventId, Place
from inference.edge.wire import Wire
from inference.protocol.events import (
    CallEnd,
    CallRef,
    Delta,
    Entry,
    Event,
    Failed,
    Progress,
    TokenLogprobs,
)
from inference.protocol.requests import GenerateRequest, ReplyInfo, TextPrompt
from llamaweb.lib.errors import InvalidError
from tests.edge.events import STARTED, finished, logprobs
from tests.edge.resumable.reading import (
    GENERATION,
    cuts_of,
    data_of,
    entries_of,
    folded,
    recut,
    sent,
)

WireOf = Callable[[], Wire]


def request_of(options_json: str) -> GenerateRequest:
    """What a wire is made of."""
    reply = ReplyInfo("reply-1", 1, "tiny", "f", options_json)
    return GenerateRequest(
        GENERATION, "tiny", "user:7", "user:7", TextPrompt(""), 1, 0.0, 1.0, reply=reply
    )


def openai() -> OpenAIWire:
    """Chats with all that they can show."""
    options = ReplyOptions(include_usage=True, return_progress=True, logprobs=True, top=1)
    return OpenAIWire([request_of(options_to_json(options))])


def anthropic() -> MessageWire:
    """Many frames an entry."""
    return MessageWire(request_of(message_json(MessageOptions())))


WIRES: list[WireOf] = [openai, anthropic]


class LogMaker:
    """Events of one answer, in the order of the protocol."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._num_tokens = 0
        self._num_calls = 0

    def events(self) -> list[Event]:
        draw = self._draw
        events: list[Event] = [STARTED]
        events += [Progress(n, 10) for n in range(draw(st.integers(0, 2)))]
        for _ in range(draw(st.integers(0, 5))):
            events += self._part()
        is_whole = draw(st.booleans())
        return [*events, finished() if is_whole else Failed("engine_failed", "it broke")]

    def _part(self) -> list[Event]:
        kind = self._draw(st.sampled_from(["content", "reasoning", "tool_call"]))
        texts = self._draw(st.lists(st.text("ab😺", max_size=4), min_size=1, max_size=4))
        if kind != "tool_call":
            return [Delta(text, *self._tokens(), kind=kind) for text in texts]  # type: ignore
        index, self._num_calls = self._num_calls, self._num_calls + 1
        end: CallEnd | None = self._draw(st.sampled_from(["complete", "broken"]))
        calls = [CallRef(index) for _ in texts]
        calls[0] = CallRef(index, f"id{index}", "f")
        calls[-1] = CallRef(index, calls[-1].id, calls[-1].name, end)
        return [
            Delta(text, (), 0, "tool_call", call=call)
            for text, call in zip(texts, calls, strict=True)
        ]

    def _tokens(self) -> tuple[tuple[int, ...], int]:
        count = self._draw(st.integers(0, 3))
        self._num_tokens += count
        return tuple(range(self._num_tokens - count, self._num_tokens)), 0


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """A whole log, whose tokens have probabilities."""
    events = LogMaker(draw).events()
    return entries_of([_with_probs(event) for event in events])


def _with_probs(event: Event) -> Event:
    if not isinstance(event, Delta):
        return event
    probs: tuple[TokenLogprobs, ...] = tuple(logprobs(str(token)) for token in event.token_ids)
    return Delta(event.text, event.token_ids, 0, event.kind, probs, event.call)


def essence(raw: bytes) -> Any:
    """What a client makes of a stream, whatever its pieces are."""
    objects = [each for each in data_of(raw) if "prompt_progress" not in each]
    if objects and "type" in objects[0] and "choices" not in objects[0]:
        return _essence_of_message(objects)
    deltas = [c for each in objects for c in each.get("choices", ())]
    probs = [p for d in deltas for p in (d.get("logprobs") or {}).get("content", ())]
    errors = [each["error"] for each in objects if "error" in each]
    calls: dict[int, list[str]] = {}
    for call in (c for d in deltas for c in d["delta"].get("tool_calls", ())):
        told = calls.setdefault(call["index"], [call.get("id", ""), ""])
        told[1] += call["function"]["arguments"]
    return {
        "content": "".join(d["delta"].get("content") or "" for d in deltas),
        "reasoning": "".join(d["delta"].get("reasoning_content", "") for d in deltas),
        "calls": calls,
        # Tokens that hadn't come to text when it broke are told or not.
        "probs": [] if errors else [item["token"] for item in probs],
        "roles": sum("role" in d["delta"] for d in deltas),
        "ends": [d["finish_reason"] for d in deltas if d["finish_reason"]],
        "usages": sum(not each.get("choices", True) for each in objects),
        "errors": errors,
        "done": raw.count(b"[DONE]"),
    }


def _essence_of_message(objects: Sequence[dict[str, Any]]) -> Any:
    told: list[Any] = []
    for each in objects:
        if each["type"] != "content_block_delta":
            told.append(each)
            continue
        kind, text = (each["delta"][key] for key in _keys(each["delta"]))
        if told and told[-1][:2] == (each["index"], kind) if isinstance(told[-1], tuple) else False:
            told[-1] = (each["index"], kind, told[-1][2] + text)
        else:
            told.append((each["index"], kind, text))
    return told


def _keys(delta: dict[str, Any]) -> tuple[str, str]:
    (field,) = set(delta) - {"type"}
    return "type", field


@pytest.mark.parametrize("wire_of", WIRES)
@given(log=logs())
def test_an_uncut_log_goes_on_byte_for_byte(wire_of: WireOf, log: list[Entry]) -> None:
    whole = sent(wire_of(), log)
    ids = [event_id for event_id, _ in cuts_of(whole)]
    assert len(set(ids)) == len(ids) == whole.count(b"data: ") - whole.count(b"[DONE]")
    for event_id, before in cuts_of(whole):
        assert before + sent(wire_of(), log, after=event_id) == whole


@pytest.mark.parametrize("wire_of", WIRES)
@given(log=logs(), at=st.integers(0, 30))
def test_a_log_that_was_cut_goes_on_with_the_rest(
    wire_of: WireOf, log: list[Entry], at: int
) -> None:
    whole, head = sent(wire_of(), log), folded(log, min(at, len(log) - 1))
    assert essence(sent(wire_of(), log, head=head)) == essence(whole)
    for event_id, before in cuts_of(whole):
        rest = sent(wire_of(), log, head=head, after=event_id)
        assert essence(before + rest) == essence(whole), event_id


@pytest.mark.parametrize("wire_of", WIRES)
@given(log=logs(), cuts=st.sets(st.integers(0, 20)))
def test_a_log_that_was_written_again_goes_on_with_the_rest(
    wire_of: WireOf, log: list[Entry], cuts: set[int]
) -> None:
    whole, again = sent(wire_of(), log), recut(log, cuts.__contains__)
    assert essence(sent(wire_of(), again)) == essence(whole)
    for event_id, before in cuts_of(whole):
        assert essence(before + sent(wire_of(), again, after=event_id)) == essence(whole), event_id


@given(log=logs(), at=st.integers(0, 30))
def test_it_is_the_whole_reply_in_pieces(log: list[Entry], at: int) -> None:
    wire = openai()
    told = data_of(sent(wire, log, head=folded(log, min(at, len(log) - 1))))
    if any("error" in each for each in told):
        return
    body = whole_reply(wire._choices, told)
    message = body["choices"][0]["message"]
    assert message["content"] == essence(sent(openai(), log))["content"]


def test_who_has_more_than_there_is_hears_of_it() -> None:
    log = entries_of([STARTED, Delta("ab", (1,)), finished()])
    told = sent(openai(), log, after=f"{GENERATION}:9.0@40")
    assert [each["error"]["code"] for each in data_of(told)] == [500]


@given(
    st.builds(
        EventId,
        st.just("gen-A1_z"),
        st.integers(0, 10**9 - 1),
        st.integers(0, 10**6 - 1),
        st.lists(st.builds(Place, *[st.integers(0, 10**9 - 1)] * 3), max_size=4).map(tuple),
        st.integers(0, 10**6 - 1),
    )
)
def test_ids_are_read_as_they_are_written(event_id: EventId) -> None:
    assert EventId.parse(str(event_id)) == event_id


@pytest.mark.parametrize(
    "text",
    [
        *("", "7", "gen-1", "gen-1:1", "gen-1:1.x", "gen-1:1.1@", "gen-1:1.1@1..2", "gen 1:1.1"),
        *("gen-1:1.1@1.2.3.4", "gen-1:-1.1", "gen-1:1.1@,", "gen-1:1.1+", "x" * 3000),
        "gen-1:1.1@" + "9" * 12,
    ],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidError) as caught:
        EventId.parse(text)
    assert caught.value.param == "Last-Event-ID"
