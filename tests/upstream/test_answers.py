"""Answers of another server come through the queue as those of a local model do."""

from __future__ import annotations

from typing import Any

import pytest

from inference.protocol.events import (
    CallRef,
    Cancelled,
    Delta,
    Failed,
    Finished,
    Progress,
    Started,
)
from inference.protocol.fold import text_of
from inference.protocol.params import Limits, SamplingParams
from inference.protocol.requests import ChatPrompt, Message, TextPrompt
from inference.queues.contract import START
from tests.stack import wait_for
from tests.upstream.conftest import UpstreamBench
from tests.upstream.server import DONE, MODEL, Reply, answer_of, chunk, frame
from tests.worker.conftest import MODEL as NAME
from tests.worker.conftest import WAIT_S, generate

TEXT = "naïve 漢字 😺"


def test_an_answer_is_whole_and_counted_as_the_server_says(bench: UpstreamBench) -> None:
    bench.begin()
    log = bench.ended(bench.submit(generate(TEXT)))
    assert text_of(log) == TEXT
    assert log.started == Started(0, 0)
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "stop"
    usage = log.terminal.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) == (11, 5, 4)


def test_what_is_asked(bench: UpstreamBench) -> None:
    bench.begin()
    messages = (Message("system", "be brief"), Message("user", "hi", name="ann"))
    request = generate(
        prompt=ChatPrompt(messages),
        sampling=SamplingParams(temperature=0.5, top_p=0.9, logit_bias=((7, None), (8, 1.5))),
        limits=Limits(max_tokens=9, stop=("END",)),
        seed=3,
    )
    bench.ended(bench.submit(request))
    (asked,) = bench.upstream.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == f"Bearer {bench.upstream.key}"
    assert asked.body == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi", "name": "ann"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "seed": 3,
        "temperature": 0.5,
        "top_p": 0.9,
        "max_tokens": 9,
        "stop": ["END"],
        "logit_bias": {"7": -100.0, "8": 1.5},
    }


def test_a_text_is_completed(bench: UpstreamBench) -> None:
    bench.begin()
    log = bench.ended(bench.submit(generate(prompt=TextPrompt("once upon"))))
    assert text_of(log) == "once upon"
    assert bench.upstream.asked[0].path == "/v1/completions"


def test_many_answers_side_by_side_and_no_more_than_slots(bench: UpstreamBench) -> None:
    bench.upstream.echo_pause_s = 0.01
    bench.begin(num_slots=3)
    ids = [bench.submit(generate(f"answer {i}", owner_key=f"user:{i % 3}")) for i in range(12)]
    wait_for("three run", lambda: bench.queue.load(NAME).running == 3, WAIT_S)
    assert [text_of(bench.ended(gid)) for gid in ids] == [f"answer {i}" for i in range(12)]


def test_text_comes_while_it_is_written(bench: UpstreamBench) -> None:
    bench.upstream.give(Reply([chunk({"content": "begin"})], holds=True))
    bench.begin()
    gid = bench.submit(generate())
    wait_for("the first text", lambda: text_of(bench.log(gid)) == "begin", WAIT_S)
    assert bench.log(gid).terminal is None
    bench.queue.cancel(NAME, gid, "user")
    log = bench.ended(gid)
    assert log.terminal == Cancelled("user", log.terminal.usage)  # type: ignore[union-attr]
    assert text_of(log) == "begin"
    assert log.terminal.usage.completion_tokens > 0  # type: ignore[union-attr]
    assert bench.upstream.left.wait(WAIT_S)  # the connection was closed


def test_cancelling_before_anything_came_closes_the_connection(bench: UpstreamBench) -> None:
    bench.upstream.give(Reply([], holds=True))
    bench.begin(num_slots=1)
    gid = bench.submit(generate())
    wait_for("it is asked", lambda: bench.upstream.asked, WAIT_S)
    bench.queue.cancel(NAME, gid, "user")
    assert isinstance(bench.ended(gid).terminal, Cancelled)
    assert bench.upstream.left.wait(WAIT_S)
    assert text_of(bench.ended(bench.submit(generate("next")))) == "next"


def test_reasoning_and_tool_calls(bench: UpstreamBench) -> None:
    calls = [
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "clock", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"zone":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"utc"}'}}]},
        {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "stop"}}]},
    ]
    frames = [chunk({"reasoning_content": "hm "}), chunk({"reasoning": "so"})]
    frames += [chunk({"content": "I look."}), *map(chunk, calls), chunk({}, finish="tool_calls")]
    bench.upstream.give(Reply([*frames, DONE]))
    bench.begin()
    log = bench.ended(bench.submit(generate()))
    assert log.parts[:2] == (("reasoning", "hm so"), ("content", "I look."))
    assert log.parts[2:] == (("tool_call", '{"zone":"utc"}'), ("tool_call", "{}"))
    assert log.calls == (
        CallRef(0, "c1", "clock", "complete"),
        CallRef(1, "c2", "stop", "complete"),
    )
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "tool_calls"


@pytest.mark.parametrize("calls", [[], [{"index": 0, "id": "c", "function": {"arguments": "{}"}}]])
def test_an_answer_without_a_call_ends_as_one(bench: UpstreamBench, calls: list[Any]) -> None:
    frames = [chunk({"content": "hi"}), chunk({"tool_calls": calls})]
    bench.upstream.give(Reply([*frames, chunk({}, finish="tool_calls"), DONE]))
    bench.begin()
    log = bench.ended(bench.submit(generate()))
    assert log.parts == (("content", "hi"),)
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "stop"


def test_log_probabilities(bench: UpstreamBench) -> None:
    told = {"token": "é", "logprob": -0.5, "bytes": [195, 169], "id": 9}
    rival = {"token": "e", "logprob": -2.0, "bytes": None}
    logprobs = {"content": [{**told, "top_logprobs": [told, rival]}]}
    choice = {"index": 0, "delta": {"content": "é"}, "logprobs": logprobs}
    bench.upstream.give(Reply([frame({"choices": [choice]}), *answer_of()]))
    bench.begin()
    log = bench.ended(bench.submit(generate(sampling=SamplingParams(num_probs=2))))
    (item,) = log.logprobs
    assert (item.chosen.token_id, item.chosen.token_bytes, item.chosen.logprob) == (
        9, (195, 169), -0.5,
    )  # fmt: skip
    assert (item.top[1].token_id, item.top[1].token_bytes) == (-1, (101,))
    body = bench.upstream.asked[0].body
    assert (body["logprobs"], body["top_logprobs"]) == (True, 2)


def test_without_usage_it_is_estimated(bench: UpstreamBench) -> None:
    bench.upstream.give(Reply(answer_of("a", "b", "c", usage=None)))
    bench.begin()
    log = bench.ended(bench.submit(generate("x" * 40)))
    assert isinstance(log.terminal, Finished)
    assert log.terminal.usage.prompt_tokens == 10
    assert log.terminal.usage.completion_tokens >= 3


def test_an_end_without_done_and_keep_alives_are_fine(bench: UpstreamBench) -> None:
    frames = [b": still there\n\n", *answer_of("hi")[:-1]]
    bench.upstream.give(Reply(frames))
    bench.begin()
    log = bench.ended(bench.submit(generate()))
    assert text_of(log) == "hi"
    assert isinstance(log.terminal, Finished)


def test_progress_of_a_llama_server(bench: UpstreamBench) -> None:
    progress = {"total": 100, "cache": 20, "processed": 60, "time_ms": 5}
    frames = [frame({"choices": [], "prompt_progress": progress}), *answer_of("hi")]
    bench.upstream.give(Reply(frames))
    bench.begin(dialect="llama_server")
    gid = bench.submit(generate())
    log = bench.ended(gid)
    assert log.started == Started(100, 20)
    events = [entry.event for entry in bench.queue.read(NAME, gid, START).entries]
    assert Progress(60, 100) in events
    assert sum(isinstance(event, Delta) for event in events) >= 1
    assert bench.upstream.asked[0].body["return_progress"] is True


def test_a_deadline_ends_it(bench: UpstreamBench) -> None:
    import time

    bench.upstream.give(Reply([chunk({"content": "some"})], holds=True))
    bench.begin()
    log = bench.ended(bench.submit(generate(deadline_at=time.time() + 0.5)))
    assert isinstance(log.terminal, Failed)
    assert log.terminal.code == "deadline_exceeded"
    assert text_of(log) == "some"
    assert bench.upstream.left.wait(WAIT_S)


def test_the_heartbeat_tells_what_engines_tell(bench: UpstreamBench) -> None:
    bench.begin(num_slots=3)
    bench.ended(bench.submit(generate("hello")))

    def told() -> bool:
        (status,) = bench.queue.engines(NAME)
        return status.info["finished"] == 1 and status.info["max_context"] == 4096

    wait_for("the numbers", told, WAIT_S)
    (status,) = bench.queue.engines(NAME)
    assert status.info["prompt_tokens"] == 7
    assert status.info["cached_tokens"] == 4
    assert status.info["generated_tokens"] >= 5
    assert status.info["engine_class"] == "upstream"


def test_a_context_that_was_given_wins(bench: UpstreamBench) -> None:
    bench.begin(context_len=123)

    def told() -> bool:
        return bench.queue.engines(NAME)[0].info.get("max_context") == 123

    wait_for("the context", told, WAIT_S)
