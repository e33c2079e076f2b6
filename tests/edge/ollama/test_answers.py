"""What a model writes on Ollama's wire: thinking, calls as objects, the same however it comes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.edge.ollama.options import ReplyOptions, options_to_json
from inference.edge.ollama.render import OllamaWire
from inference.edge.steps import Steps
from inference.edge.wire import Frame
from inference.protocol.events import Delta, Entry, Event
from inference.protocol.fold import EMPTY, fold
from inference.protocol.requests import GenerateRequest, ReplyInfo, TextPrompt
from tests.edge.events import STARTED, delta, finished, logprobs
from tests.edge.ollama.lines import CHAT, GENERATE, PATHS, Ollama, joined
from tests.edge.test_answers import ANSWERS, CUTS, log_of, numbered
from tests.edge.test_tools import TWO_CALLS, called, tool
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
WEATHER = {"index": 0, "name": "weather", "arguments": {"city": "Zürich 😺"}}
CLOCK = {"index": 1, "name": "clock", "arguments": {}}
CALLS = [{"id": "call_a", "function": WEATHER}, {"id": "call_b", "function": CLOCK}]


def wire_of(kind: Any = "chat") -> OllamaWire:
    reply = ReplyInfo("id", 1_700_000_000, "m", "f", options_to_json(ReplyOptions(kind)))
    return OllamaWire(GenerateRequest("g", "m", "o", "c", TextPrompt(""), 1, 0, 0, reply=reply))


def frames_of(wire: OllamaWire, entries: Sequence[Entry], steps: Steps) -> list[Frame]:
    return [f for entry in entries for step in steps.feed(entry) for f in wire.render(0, step)]


def reply_of(events: Sequence[Event], kind: Any = "chat") -> dict[str, Any]:
    wire = wire_of(kind)
    return wire.whole(frames_of(wire, numbered(events), Steps()))


async def test_thinking_calls_and_text_are_apart(says: Says, ollama: Ollama) -> None:
    """S03, S11: and a call without parameters has an object all the same."""
    says(*TWO_CALLS)
    lines = await ollama.stream(CHAT, tools=[tool("weather"), tool("clock")])
    assert [line["message"] for line in lines] == [
        {"role": "assistant", "content": "", "thinking": "Both?"},
        {"role": "assistant", "content": "I look."},
        {"role": "assistant", "content": "", "tool_calls": [CALLS[0]]},
        {"role": "assistant", "content": "", "tool_calls": [CALLS[1]]},
        {"role": "assistant", "content": ""},
    ]
    assert lines[-1]["done_reason"] == "stop"


async def test_the_whole_reply_is_the_stream_joined(says: Says, ollama: Ollama) -> None:
    says(*TWO_CALLS)
    tools = [tool("weather"), tool("clock")]
    lines = await ollama.stream(CHAT, tools=tools)
    _, whole = await ollama.post(CHAT, tools=tools)
    assert whole["message"] == {"role": "assistant", **joined(CHAT, lines)}
    same = ("done", "done_reason", "total_duration", "eval_count", "prompt_eval_count", "model")
    assert {name: whole[name] for name in same} == {name: lines[-1][name] for name in same}


async def test_a_prompts_answer_thinks_beside_its_text(says: Says, ollama: Ollama) -> None:
    says(STARTED, Delta("Hm.", (1,), kind="reasoning"), delta("Yes"), finished())
    lines = await ollama.stream(GENERATE)
    assert [(line["response"], line.get("thinking")) for line in lines] == [
        ("", "Hm."),
        ("Yes", None),
        ("", None),
    ]
    _, whole = await ollama.post(GENERATE)
    assert (whole["response"], whole["thinking"]) == ("Yes", "Hm.")
    assert "message" not in whole


@given(st.sampled_from(ANSWERS), CUTS, CUTS, st.sampled_from(["chat", "generate"]))
def test_s04_the_reply_is_the_same_for_every_cutting(
    text: str, cuts: set[int], steps: set[int], kind: str
) -> None:
    assert reply_of(log_of(text, cuts, steps), kind) == reply_of(log_of(text, set()), kind)


@given(st.sampled_from(ANSWERS), CUTS, st.integers(0, 40), st.integers(0, 40))
def test_a_snapshot_in_between_costs_nothing(
    text: str, cuts: set[int], seen: int, reset_at: int
) -> None:
    entries = numbered(log_of(text, cuts))
    seen = min(seen, len(entries) - 1)
    reset_at = min(max(seen, reset_at), len(entries) - 1)
    wire, made = wire_of(), Steps()
    frames = frames_of(wire, entries[:seen], made)
    for step in made.reset(fold(EMPTY, entries[: reset_at + 1])):
        frames += wire.render(0, step)
    frames += frames_of(wire, entries[reset_at + 1 :], made)
    assert wire.whole(frames) == reply_of(log_of(text, set()))


async def test_a_call_that_was_cut_is_text(says: Says, ollama: Ollama) -> None:
    """Nobody should run it, and an object can't be unfinished."""
    says(STARTED, called('{"city": "Zü', 0, "call_a", "weather", "broken"), finished("length"))
    for _ in range(2):
        status, body = await ollama.post(CHAT, tools=[tool("weather")])
        assert status == 200
        assert body["message"] == {
            "role": "assistant",
            "content": '{"name": "weather", "arguments": {"city": "Zü',
        }
        assert body["done_reason"] == "length"


@pytest.mark.parametrize("path", PATHS)
async def test_t05_t08_a_line_is_a_line_whatever_is_in_it(
    says: Says, ollama: Ollama, path: str
) -> None:
    texts = ["ok 😺 漢字 é", "\ndata: x\n", "\r", "\u2028\u2029\u0085", '"}\n{"']
    says(STARTED, *map(delta, texts), finished())
    lines = await ollama.stream(path)
    assert len(lines) == len(texts) + 1
    assert joined(path, lines)["content"] == "".join(texts)


@pytest.mark.parametrize("path", PATHS)
async def test_probabilities_of_tokens(says: Says, ollama: Ollama, path: str) -> None:
    item = {"token": "x", "logprob": -0.5, "bytes": [120]}
    rival = {"token": "!", "logprob": -1.5, "bytes": [33]}
    fake = says(STARTED, Delta("x", (7,), logprobs=(logprobs("x"),)), finished())
    _, body = await ollama.post(path, logprobs=True)
    assert body["logprobs"] == [item]
    assert fake.submitted[-1].sampling.num_probs == 1
    lines = await ollama.stream(path, logprobs=True, top_logprobs=2)
    assert lines[0]["logprobs"] == [{**item, "top_logprobs": [item, rival]}]
    assert fake.submitted[-1].sampling.num_probs == 2
    _, body = await ollama.post(path)
    assert "logprobs" not in body


async def test_how_it_ended(says: Says, ollama: Ollama) -> None:
    for reason, told in (("stop", "stop"), ("length", "length"), ("tool_calls", "stop")):
        says(STARTED, delta("x"), finished(reason))  # type: ignore[arg-type]
        assert (await ollama.post(CHAT))[1]["done_reason"] == told
