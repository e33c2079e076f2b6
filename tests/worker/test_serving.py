"""What goes in comes out: answers, refusals, ends."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from inference.engine.contract import SequenceRequest
from inference.engine.mock_tokenizer import END_TOKEN, VOCAB_LEN
from inference.engine.pipeline import Pipeline
from inference.protocol.events import Cancelled, Failed, Finished, Started
from inference.protocol.fold import text_of
from inference.protocol.params import Grammar, Limits, SamplingParams
from inference.protocol.requests import (
    ChatPrompt,
    CountRequest,
    DescribeRequest,
    DetokenizeRequest,
    GenerateRequest,
    InfillPrompt,
    Message,
    MixedPrompt,
    Prompt,
    RenderRequest,
    TextPrompt,
    TokenizeRequest,
)
from inference.protocol.results import (
    CountResult,
    DescribeResult,
    DetokenizeResult,
    RenderResult,
    TokenizeResult,
)
from inference.text.chat_template import CHATML_TEMPLATE
from inference.text.prompts import MAX_TEXT_BYTES
from inference.worker.intake import NUM_PREPARING
from tests.stack import wait_for
from tests.worker.conftest import MODEL, WAIT_S, Bench, generate


def test_an_answer_is_whole(bench: Bench) -> None:
    bench.start()
    log = bench.ended(bench.submit(generate("naïve 漢字 😺")))
    assert text_of(log) == "naïve 漢字 😺"
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "stop"
    assert isinstance(log.started, Started)
    assert log.started.prompt_tokens == log.terminal.usage.prompt_tokens > 0


def test_those_that_take_long_to_prepare_hold_nobody_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, prepare = threading.Event(), Pipeline.prepare
    preparing: list[str] = []

    def slow(pipeline: Pipeline, request: GenerateRequest) -> SequenceRequest:
        if request.owner_key == "user:slow":
            preparing.append(request.generation_id)
            assert goes_on.wait(WAIT_S)
        return prepare(pipeline, request)

    monkeypatch.setattr(Pipeline, "prepare", slow)
    num_late = NUM_PREPARING + 1
    bench.start(num_slots=num_late + 1)
    late = [bench.submit(generate("late", owner_key="user:slow")) for _ in range(num_late)]
    wait_for("all of them", lambda: len(preparing) == num_late, WAIT_S)
    assert text_of(bench.ended(bench.submit(generate("soon")))) == "soon"
    assert [bench.log(each).terminal for each in late] == [None] * num_late
    goes_on.set()
    assert {text_of(bench.ended(each)) for each in late} == {"late"}


def test_what_needs_no_slot_takes_no_answers_thread(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, count = threading.Event(), Pipeline.count
    begun = threading.Semaphore(0)

    def slow(pipeline: Pipeline, prompt: Prompt, **values: Any) -> int:
        begun.release()
        assert goes_on.wait(WAIT_S)
        return count(pipeline, prompt, **values)

    monkeypatch.setattr(Pipeline, "count", slow)
    bench.start(num_slots=2)
    one = utility(CountRequest, prompt=TextPrompt("x"))
    late = [bench.submit(replace(one, generation_id=f"u-{number}")) for number in range(12)]
    for _ in range(NUM_PREPARING):
        assert begun.acquire(timeout=WAIT_S)
    assert text_of(bench.ended(bench.submit(generate("soon")))) == "soon"
    goes_on.set()
    for each in late:
        assert isinstance(bench.ended(each).terminal, Finished)


def test_many_answers_at_once(bench: Bench) -> None:
    bench.start()
    ids = [bench.submit(generate(f"answer {i}", owner_key=f"user:{i % 3}")) for i in range(20)]
    assert [text_of(bench.ended(gid)) for gid in ids] == [f"answer {i}" for i in range(20)]


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"prompt": TextPrompt("x" * 300)}, "context_length_exceeded"),
        ({"prompt": TextPrompt("")}, "invalid_request"),
        ({"prompt": MixedPrompt((1, "x" * 300))}, "context_length_exceeded"),
        ({"prompt": MixedPrompt((1, "x", 999))}, "invalid_request"),
        ({"sampling": SamplingParams(repeat_penalty=-1.0)}, "invalid_request"),
        ({"sampling": SamplingParams(grammar=Grammar("root ::= ("))}, "invalid_request"),
        ({"sampling": SamplingParams(grammar=Grammar("root ::= .", lazy=True))}, "invalid_request"),
    ],
)
def test_what_cannot_be_served_is_refused(
    bench: Bench, values: dict[str, object], code: str
) -> None:
    bench.start(context_len=256)
    log = bench.ended(bench.submit(generate(**values)))
    assert isinstance(log.terminal, Failed)
    assert log.terminal.code == code
    assert log.started is None
    assert text_of(bench.ended(bench.submit(generate("still here")))) == "still here"


def test_ids_and_texts_are_one_prompt(bench: Bench) -> None:
    bench.start()
    prompt = MixedPrompt(("naïve ", *b"ids ", "漢字"))
    assert text_of(bench.ended(bench.submit(generate(prompt=prompt)))) == "naïve ids 漢字"


def test_an_answer_follows_its_grammar_to_the_reader(bench: Bench) -> None:
    bench.start()
    sampling = SamplingParams(grammar=Grammar('root ::= "hullo" [0-9]'))
    text = text_of(bench.ended(bench.submit(generate("hello", sampling=sampling))))
    assert text[:-1] == "hullo"
    assert text[-1].isdigit()


def test_what_a_stop_string_held_reaches_the_reader_of_a_cancelled_answer(bench: Bench) -> None:
    bench.start(delay_ms=20)
    text = "he hello" + "o" * 200
    gid = bench.submit(generate(text, limits=Limits(stop=("hello" + "o" * 300,))))
    bench.wait_text(gid, 6)
    assert text_of(bench.log(gid)) == "he "
    bench.queue.cancel(MODEL, gid, "user")
    log = bench.ended(gid)
    assert isinstance(log.terminal, Cancelled)
    assert text_of(log) == text[: len(log.token_ids)]


def test_too_long_names_both_numbers(bench: Bench) -> None:
    bench.start(context_len=256)
    log = bench.ended(bench.submit(generate(prompt=TextPrompt("x" * 256))))
    assert isinstance(log.terminal, Failed)
    assert dict(log.terminal.details) == {"n_prompt_tokens": 256, "n_ctx": 256}


def test_a_failing_model_fails_the_request_with_the_text_so_far(bench: Bench) -> None:
    bench.start(fail_after=4)
    log = bench.ended(bench.submit(generate("hello world")))
    assert isinstance(log.terminal, Failed)
    assert log.terminal.code == "engine_failed"
    assert text_of(log) == "hell"


def test_a_deadline_ends_a_running_answer(bench: Bench) -> None:
    bench.start(delay_ms=20)
    log = bench.ended(bench.submit(generate("x" * 10_000, deadline_at=time.time() + 0.5)))
    assert isinstance(log.terminal, Failed)
    assert log.terminal.code == "deadline_exceeded"
    assert log.terminal.usage.completion_tokens == len(log.token_ids)


@pytest.mark.parametrize("stage", ["decode", "prefill"])
def test_cancel_frees_the_slot(bench: Bench, stage: str) -> None:
    slow = {"prefill_ms_per_token": 1.0} if stage == "prefill" else {"delay_ms": 20.0}
    bench.start(num_slots=1, **slow)
    gid = bench.submit(generate("x" * 20_000))
    wait_for("it runs", lambda: bench.queue.load(MODEL).running == 1, WAIT_S)
    if stage == "decode":
        bench.wait_text(gid)
    bench.queue.cancel(MODEL, gid, "user")
    log = bench.ended(gid)
    assert isinstance(log.terminal, Cancelled)
    assert log.terminal.by == "user"
    assert text_of(bench.ended(bench.submit(generate("next")))) == "next"


def test_a_reader_that_leaves_ends_a_plain_request(bench: Bench) -> None:
    bench.start(delay_ms=20)
    gid = bench.submit(generate("x" * 10_000, keep=False), reader_id="r")
    bench.wait_text(gid)
    log = bench.ended(gid)  # nobody renews
    assert isinstance(log.terminal, Cancelled)
    assert log.terminal.by == "reader_gone"


def test_a_limit_counts_tokens(bench: Bench) -> None:
    bench.start()
    log = bench.ended(bench.submit(generate("abcdefgh", limits=Limits(max_tokens=3))))
    assert text_of(log) == "abc"
    assert isinstance(log.terminal, Finished)
    assert (log.terminal.reason, log.terminal.usage.completion_tokens) == ("length", 3)


def utility(kind: type, **values: object) -> Any:
    now = time.time()
    return kind("u-1", MODEL, "user:1", now, now + 60, **values)


def test_utility_requests_need_no_slot(bench: Bench) -> None:
    bench.start(num_slots=1, delay_ms=20)
    bench.wait_text(bench.submit(generate("x" * 10_000)))
    bench.queue.submit(utility(TokenizeRequest, text="abc"))
    result = bench.ended("u-1").result
    assert result is not None
    assert result.result == TokenizeResult((97, 98, 99))


def test_tokens_are_told_apart_and_put_together(bench: Bench) -> None:
    bench.start()
    bench.queue.submit(utility(TokenizeRequest, text="aé", with_pieces=True))
    result = bench.ended("u-1").result
    assert result is not None
    assert result.result == TokenizeResult((97, 0xC3, 0xA9), ("a", (0xC3,), (0xA9,)))
    request = utility(DetokenizeRequest, tokens=(97, 0xC3, 0xA9, 0xF0, END_TOKEN))
    object.__setattr__(request, "generation_id", "u-2")
    bench.queue.submit(request)
    result = bench.ended("u-2").result
    assert result is not None
    assert result.result == DetokenizeResult("aé\ufffd<|end|>")


@pytest.mark.parametrize("tokens", [(-1,), (VOCAB_LEN,), (97, 10**9)])
def test_tokens_that_are_none_are_refused(bench: Bench, tokens: tuple[int, ...]) -> None:
    bench.start()
    bench.queue.submit(utility(DetokenizeRequest, tokens=tokens))
    terminal = bench.ended("u-1").terminal
    assert isinstance(terminal, Failed)
    assert (terminal.code, terminal.param) == ("invalid_request", "tokens")


def test_too_much_text_of_tokens_is_refused(bench: Bench) -> None:
    bench.start()
    num = MAX_TEXT_BYTES // len("<|end|>") + 1
    bench.queue.submit(utility(DetokenizeRequest, tokens=(END_TOKEN,) * num))
    terminal = bench.ended("u-1").terminal
    assert isinstance(terminal, Failed)
    assert str(MAX_TEXT_BYTES) in terminal.message


def test_what_chats_are_written_with(bench: Bench) -> None:
    bench.start()
    bench.queue.submit(utility(DescribeRequest))
    result = bench.ended("u-1").result
    assert result is not None
    assert isinstance(result.result, DescribeResult)
    assert result.result.chat_template == CHATML_TEMPLATE
    assert "system" in result.result.capabilities


def test_a_gap_is_marked_where_the_vocabulary_is(bench: Bench) -> None:
    """The mock says its prompt again, marks and all."""
    bench.start()
    prompt = InfillPrompt("def f(", "):", begun="a")
    log = bench.ended(bench.submit(generate(prompt=prompt)))
    assert text_of(log) == "\x04repository\n\x05file\n\x01def f(a\x02):\x03"


def test_count_and_render_agree_with_each_other(bench: Bench) -> None:
    bench.start()
    prompt = ChatPrompt((Message("user", "hi"),))
    bench.queue.submit(utility(RenderRequest, prompt=prompt))
    rendered = bench.ended("u-1").result
    assert rendered is not None
    assert isinstance(rendered.result, RenderResult)
    request = utility(CountRequest, prompt=prompt)
    object.__setattr__(request, "generation_id", "u-2")
    bench.queue.submit(request)
    counted = bench.ended("u-2").result
    assert counted is not None
    assert counted.result == CountResult(len(rendered.result.text.encode()))


def test_p11_an_answer_longer_than_the_context_ends_with_length(bench: Bench) -> None:
    """The prompt fits, what is asked for doesn't: as much as fits, and the client is told."""
    bench.start(context_len=256, reply="y" * 1000)
    prompt = TextPrompt("x" * 250)
    log = bench.ended(bench.submit(generate(prompt=prompt, limits=Limits(max_tokens=500))))
    assert isinstance(log.terminal, Finished)
    assert log.terminal.reason == "length"
    assert text_of(log) == "y" * 6
    assert log.terminal.usage.prompt_tokens + log.terminal.usage.completion_tokens == 256
