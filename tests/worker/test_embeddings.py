"""Vectors and scores through the queue: answered beside answers, cancelled, late, refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from inference.engine.mock_embedding import MockEmbedding
from inference.engine.vectors import decoded
from inference.protocol.events import Cancelled, Failed, Finished, Result
from inference.protocol.fold import text_of
from inference.protocol.requests import EmbedRequest, RerankRequest, TextPrompt
from inference.protocol.results import EmbedResult, RerankResult
from inference.worker.intake import MAX_UTILITIES
from llamaweb.lib.ids import new_id
from tests.stack import wait_for
from tests.worker.conftest import MODEL, WAIT_S, Bench, generate

SLOW = 40.0  # ms a token: a text of 512 takes as long as the mock's longest step


def embed(*texts: str, **values: Any) -> EmbedRequest:
    now = time.time()
    inputs = tuple(map(TextPrompt, texts))
    fields = {"owner_key": "user:1", "submitted_at": now, "deadline_at": now + WAIT_S} | values
    return EmbedRequest(new_id("embed-"), MODEL, inputs=inputs, **fields)


def rerank(query: str, *documents: str) -> RerankRequest:
    now = time.time()
    return RerankRequest(
        new_id("rerank-"), MODEL, "user:1", now, now + WAIT_S, query=query, documents=documents
    )


def result(bench: Bench, request: Any) -> Any:
    log = bench.ended(bench.submit(request))
    assert isinstance(log.terminal, Finished)
    assert log.result is not None
    assert log.terminal.usage.prompt_tokens == log.result.result.prompt_tokens
    return log.result.result


def failure(bench: Bench, request: Any) -> Failed:
    log = bench.ended(bench.submit(request))
    assert isinstance(log.terminal, Failed)
    assert log.result is None
    return log.terminal


def test_a_vector_for_each_text_and_the_same_for_the_same(bench: Bench) -> None:
    bench.start()
    found = result(bench, embed("a cat", "a dog", "a cat"))
    assert isinstance(found, EmbedResult)
    assert (found.dimensions, found.prompt_tokens, found.is_pooled) == (64, 15, True)
    assert found.vectors[0] == found.vectors[2] != found.vectors[1]
    assert (decoded(found.vectors[0], 64) ** 2).sum() == pytest.approx(1.0, abs=1e-5)


def test_scores_are_in_the_order_asked(bench: Bench) -> None:
    bench.start()
    found = result(bench, rerank("abc", "xyz", "abc", "abx"))
    assert isinstance(found, RerankResult)
    assert found.scores == (0.0, 1.0, pytest.approx(0.5))


def test_a_thousand_vectors_travel_as_bytes(bench: Bench) -> None:
    bench.start()
    gid = bench.submit(embed(*(f"text {number}" for number in range(1000))))
    log = bench.ended(gid)
    assert log.result is not None
    found = log.result.result
    assert isinstance(found, EmbedResult)
    num_bytes = sum(map(len, found.vectors))
    assert len(found.vectors) == 1000
    assert num_bytes <= 1000 * 64 * 4 * 1.4  # base64 of 32 bits a number, and no more
    assert isinstance(log.terminal, Finished)


def test_vectors_take_no_slot_and_answers_none_of_theirs(bench: Bench) -> None:
    bench.start(num_slots=1, delay_ms=10)
    chat = bench.submit(generate("x" * 2000))
    bench.wait_text(chat)
    assert result(bench, embed("beside an answer")).dimensions == 64
    assert bench.log(chat).terminal is None
    bench.queue.cancel(MODEL, chat, "user")
    assert isinstance(bench.ended(chat).terminal, Cancelled)
    slow = [bench.submit(embed("y" * 500)) for _ in range(4)]
    assert text_of(bench.ended(bench.submit(generate("soon")))) == "soon"
    for gid in slow:
        assert isinstance(bench.ended(gid).terminal, Finished)


def test_more_requests_than_an_engine_takes_wait_in_the_queue(bench: Bench) -> None:
    bench.start(prefill_ms_per_token=SLOW)
    ids = [
        bench.submit(embed("x" * 20, owner_key=f"user:{number % 4}"))
        for number in range(MAX_UTILITIES + 12)
    ]
    assert bench.queue.load(MODEL).running <= MAX_UTILITIES
    for gid in ids:
        assert isinstance(bench.ended(gid).terminal, Finished)


@pytest.mark.parametrize(
    ("ask", "spec", "code", "param"),
    [
        (lambda: embed("fine", "x" * 600), {}, "context_length_exceeded", "input[1]"),
        (lambda: rerank("q", "x" * 600), {}, "context_length_exceeded", "documents[0]"),
        (lambda: embed(), {}, "invalid_request", "input"),
        (lambda: embed(""), {}, "invalid_request", "input"),
        (lambda: embed("x", dimensions=65), {}, "invalid_request", "dimensions"),
        (lambda: embed("too long for the script"), {"fail_after": 3}, "engine_failed", None),
        (lambda: rerank("q", "d"), {"only": "embedding"}, "invalid_request", "model"),
        (lambda: embed("x"), {"only": "reranking"}, "invalid_request", "model"),
        (lambda: generate("hello"), {"only": "embedding"}, "invalid_request", "model"),
        (lambda: generate("hello"), {"only": "reranking"}, "invalid_request", "model"),
    ],
)
def test_what_cannot_be_served_is_refused(
    bench: Bench, ask: Callable[[], Any], spec: dict[str, Any], code: str, param: str | None
) -> None:
    bench.start(**spec)
    end = failure(bench, ask())
    assert (end.code, end.param) == (code, param)


def test_too_long_names_both_numbers(bench: Bench) -> None:
    bench.start(ubatch_len=128)
    end = failure(bench, embed("x" * 129))
    assert dict(end.details) == {"n_prompt_tokens": 129, "n_ctx": 128}
    cut = result(bench, embed("x" * 129, truncates=True))
    assert cut.prompt_tokens == 128


def test_a_cancel_reaches_vectors_that_are_being_computed(bench: Bench) -> None:
    bench.start(prefill_ms_per_token=SLOW)
    gid = bench.submit(embed(*["x" * 400] * 60))
    other = bench.submit(embed("short"))
    assert isinstance(bench.ended(other).terminal, Finished)
    bench.queue.cancel(MODEL, gid, "user")
    assert isinstance(bench.ended(gid).terminal, Cancelled)


def test_a_deadline_ends_vectors_that_are_being_computed(bench: Bench) -> None:
    bench.start(prefill_ms_per_token=SLOW)
    end = failure(bench, embed(*["x" * 400] * 60, deadline_at=time.time() + 0.6))
    assert (end.code, end.retryable) == ("deadline_exceeded", True)


def test_nobody_waits_for_a_step_that_gets_on_with_a_long_text(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, gets_on = threading.Event(), threading.Event()
    gets_on.set()
    compute = MockEmbedding.compute

    def slow(self: MockEmbedding, pieces: Any, task: Any) -> Any:
        while not may_end.wait(0.001):
            self.progress += gets_on.is_set()
        return compute(self, pieces, task)

    def is_waited_for() -> bool:
        return bench.queue.engines(MODEL)[0].waiting_for_step

    monkeypatch.setattr(MockEmbedding, "compute", slow)
    bench.start(only="embedding")
    gid = bench.submit(embed("long"))
    wait_for("the text's turn", lambda: bench.queue.load(MODEL).running, WAIT_S)
    gets_on.clear()
    wait_for("a silent step to be noticed", is_waited_for, WAIT_S)
    gets_on.set()
    wait_for("its progress to be heard of", lambda: not is_waited_for(), WAIT_S)
    may_end.set()
    assert isinstance(bench.ended(gid).terminal, Finished)


def test_the_next_engine_computes_what_the_first_did_not(bench: Bench) -> None:
    first = bench.start(prefill_ms_per_token=SLOW)
    gid = bench.submit(embed(*["x" * 300] * 40))
    assert isinstance(bench.ended(bench.submit(embed("short"))).terminal, Finished)
    first.drain()
    bench.start()
    log = bench.ended(gid)
    assert isinstance(log.terminal, Finished)
    assert isinstance(log.result, Result)
    assert isinstance(log.result.result, EmbedResult)
    assert len(log.result.result.vectors) == 40
