"""Vectors and scores of another server: what is asked, what comes back, and how it goes wrong."""

from __future__ import annotations

import base64
import struct
import time
from typing import Any

import pytest

from inference.engine import vector_requests
from inference.engine.upstream import vector_call
from inference.engine.vectors import decoded
from inference.protocol.events import Cancelled, Failed, Finished, Snapshot
from inference.protocol.fold import text_of
from inference.protocol.requests import EmbedRequest, RerankRequest, TextPrompt, TokenPrompt
from inference.protocol.results import EmbedResult, RerankResult
from llamaweb.lib.ids import new_id
from tests.stack import wait_for
from tests.upstream.conftest import UpstreamBench
from tests.upstream.server import KEY, MODEL, Reply, refusal, vectors_of, whole
from tests.worker.conftest import MODEL as NAME
from tests.worker.conftest import WAIT_S, generate

NUM_SLOTS = 2


def embed(*texts: str, **values: Any) -> EmbedRequest:
    now = time.time()
    inputs = tuple(map(TextPrompt, texts))
    fields = {"inputs": inputs, "deadline_at": now + WAIT_S} | values
    return EmbedRequest(new_id("embed-"), NAME, "user:1", now, **fields)


def rerank(query: str, *documents: str) -> RerankRequest:
    now = time.time()
    return RerankRequest(
        new_id("rerank-"), NAME, "user:1", now, now + WAIT_S, query=query, documents=documents
    )


def ask(bench: UpstreamBench, request: Any) -> Snapshot:
    return bench.ended(bench.submit(request))


def rows(log: Snapshot) -> list[list[float]]:
    assert isinstance(log.terminal, Finished), log.terminal
    assert log.result is not None
    result = log.result.result
    assert isinstance(result, EmbedResult)
    assert log.terminal.usage.prompt_tokens == result.prompt_tokens
    return [decoded(vector, result.dimensions)[0].tolist() for vector in result.vectors]


def scores(log: Snapshot) -> tuple[float, ...]:
    assert isinstance(log.terminal, Finished), log.terminal
    assert log.result is not None
    result = log.result.result
    assert isinstance(result, RerankResult)
    assert log.terminal.usage.prompt_tokens == result.prompt_tokens
    return result.scores


def failed(log: Snapshot) -> Failed:
    assert isinstance(log.terminal, Failed)
    assert log.result is None
    assert KEY not in log.terminal.message
    return log.terminal


def test_texts_are_sent_and_their_vectors_come_back(bench: UpstreamBench) -> None:
    bench.begin()
    log = ask(bench, embed("abcd", "x", dimensions=2))
    assert rows(log) == [[4.0, 3.0], [1.0, 3.0]]
    assert isinstance(log.terminal, Finished)
    assert log.terminal.usage.prompt_tokens == 9
    (asked,) = bench.upstream.asked
    assert asked.path == "/v1/embeddings"
    assert asked.headers["accept"] == "application/json"
    assert asked.body == {
        "model": MODEL,
        "input": ["abcd", "x"],
        "encoding_format": "float",
        "dimensions": 2,
    }


@pytest.mark.parametrize(
    ("normalize", "expected"),
    [(None, [4.0, 3.0]), (-1, [4.0, 3.0]), (2, [0.8, 0.6]), (1, [4 / 7, 3 / 7])],
)
def test_vectors_are_as_they_come_unless_the_request_says(
    bench: UpstreamBench, normalize: int | None, expected: list[float]
) -> None:
    bench.begin()
    (row,) = rows(ask(bench, embed("abcd", normalize=normalize)))
    assert row == pytest.approx(expected)


def test_base64_and_another_order_are_understood(bench: UpstreamBench) -> None:
    packed = base64.b64encode(struct.pack("<2f", 1.5, -2.0)).decode()
    body = vectors_of([0.25, 0.5], packed, usage=None)
    body["data"].reverse()
    bench.upstream.give(whole(body))
    bench.begin()
    log = ask(bench, embed("a" * 8, "b"))
    assert rows(log) == [[0.25, 0.5], [1.5, -2.0]]
    assert isinstance(log.terminal, Finished)
    assert log.terminal.usage.prompt_tokens == 3  # estimated: it counts nothing


def test_scores_are_in_the_order_of_the_texts(bench: UpstreamBench) -> None:
    bench.begin()
    assert scores(ask(bench, rerank("b", "xyz", "abc"))) == (0.0, 1.0)
    (asked,) = bench.upstream.asked
    assert asked.path == "/v1/rerank"
    assert asked.body == {"model": MODEL, "query": "b", "documents": ["xyz", "abc"]}


def test_teis_list_of_scores_is_understood(bench: UpstreamBench) -> None:
    bench.upstream.give(whole([{"index": 1, "score": 2}, {"index": 0, "score": -0.5}]))
    bench.begin()
    assert scores(ask(bench, rerank("q", "a", "b"))) == (-0.5, 2.0)


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        [],
        {},
        {"data": 1},
        vectors_of([1.0]),
        vectors_of([1.0], [2.0], [3.0]),
        vectors_of([1.0], [2.0, 3.0]),
        vectors_of([], []),
        vectors_of([1.0], ["2"]),
        vectors_of([1.0], [True]),
        vectors_of([1.0], None),
        vectors_of([1.0], "****"),
        vectors_of([1.0], "AAA="),
        vectors_of([1.0], [float("nan")]),
        vectors_of([1.0], [1e300]),
        vectors_of([1.0], [10**400]),
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 2, "embedding": [1.0]}]},
        {"data": ["x", "y"]},
    ],
)
def test_vectors_that_are_none(bench: UpstreamBench, body: Any) -> None:
    bench.upstream.give(whole(body))
    bench.begin()
    end = failed(ask(bench, embed("a", "b")))
    assert (end.code, "in a way we can't read" in end.message) == ("engine_failed", True)
    assert len(bench.upstream.asked) == 1
    assert len(rows(ask(bench, embed("a", "b")))) == 2  # the next one is served


@pytest.mark.parametrize("score", [None, "1", True, float("inf"), 10**400])
def test_scores_that_are_none(bench: UpstreamBench, score: Any) -> None:
    results = [{"index": 0, "relevance_score": 1.0}, {"index": 1, "relevance_score": score}]
    bench.upstream.give(whole({"results": results}))
    bench.begin()
    assert failed(ask(bench, rerank("q", "a", "b"))).code == "engine_failed"


def test_an_answer_is_bounded(bench: UpstreamBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_call, "MAX_BODY_BYTES", 200)
    bench.upstream.give(whole(vectors_of([0.5] * 100)))
    bench.begin()
    assert failed(ask(bench, embed("a"))).code == "engine_failed"


def test_more_numbers_than_an_answer_may_have(
    bench: UpstreamBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_requests, "MAX_NUMBERS", 3)
    bench.begin()
    end = failed(ask(bench, embed("a", "b")))
    assert (end.code, end.param) == ("invalid_request", "input")
    assert "at most 1 are allowed" in end.message


def test_vectors_of_another_length_than_asked_for_are_refused(bench: UpstreamBench) -> None:
    bench.begin()
    end = failed(ask(bench, embed("ab", dimensions=3)))
    assert (end.code, end.param) == ("invalid_request", "dimensions")
    assert "vectors of 2" in end.message


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_such_a_route_goes_on_with_chats(
    bench: UpstreamBench, status: int
) -> None:
    bench.upstream.give(refusal(status), refusal(status))
    bench.begin()
    for request, what in ((rerank("q", "a"), "rates no texts"), (embed("a"), "makes no vectors")):
        end = failed(ask(bench, request))
        assert (end.code, what in end.message) == ("not_supported", True)
    assert {engine.state for engine in bench.queue.engines(NAME)} == {"ready"}
    assert text_of(ask(bench, generate("hello"))) == "hello"


@pytest.mark.parametrize(
    ("reply", "code", "param"),
    [
        (refusal(401), "engine_failed", None),
        (refusal(400, {"param": "dimensions"}), "invalid_request", "dimensions"),
        (refusal(400, {"code": "context_length_exceeded"}), "invalid_request", "input"),
        (refusal(307, location="http://127.0.0.1:1/v1/embeddings"), "engine_failed", None),
    ],
)
def test_what_is_refused_there(
    bench: UpstreamBench, reply: Reply, code: str, param: str | None
) -> None:
    bench.upstream.give(reply)
    bench.begin()
    end = failed(ask(bench, embed("a", dimensions=7)))
    assert (end.code, end.param) == (code, param)
    assert len(bench.upstream.asked) == 1


def test_a_busy_server_is_asked_again(bench: UpstreamBench) -> None:
    bench.upstream.give(refusal(429), refusal(503))
    bench.begin()
    assert rows(ask(bench, embed("ab"))) == [[2.0, 3.0]]
    assert len(bench.upstream.asked) == 3
    bench.upstream.give(refusal(500), refusal(500))
    assert failed(ask(bench, embed("ab"))).code == "engine_failed"  # asked once more, and no more
    assert len(bench.upstream.asked) == 5


def test_token_ids_are_refused_by_name(bench: UpstreamBench) -> None:
    bench.begin()
    end = failed(ask(bench, embed(inputs=(TextPrompt("a"), TokenPrompt((1, 2))))))
    assert (end.code, end.param) == ("invalid_request", "input")
    assert not bench.upstream.asked


def test_requests_wait_for_each_other_and_not_for_answers(bench: UpstreamBench) -> None:
    held = [Reply(kind="application/json", holds=True) for _ in range(NUM_SLOTS)]
    bench.upstream.give(*held)
    bench.begin(num_slots=NUM_SLOTS)
    first = [bench.submit(embed("a")) for _ in range(NUM_SLOTS)]
    wait_for("the first", lambda: len(bench.upstream.asked) == NUM_SLOTS, WAIT_S)
    second = bench.submit(embed("abc"))
    dropped = bench.submit(embed("late"))
    assert text_of(ask(bench, generate("hello"))) == "hello"  # it has slots of its own
    assert len(bench.upstream.asked) == NUM_SLOTS + 1
    bench.queue.cancel(NAME, dropped, "user")
    assert isinstance(bench.ended(dropped).terminal, Cancelled)
    bench.queue.cancel(NAME, first[0], "user")
    assert isinstance(bench.ended(first[0]).terminal, Cancelled)
    assert bench.upstream.left.wait(WAIT_S)
    assert rows(bench.ended(second)) == [[3.0, 3.0]]
    bench.queue.cancel(NAME, first[1], "user")
    assert isinstance(bench.ended(first[1]).terminal, Cancelled)
    assert [asked.body.get("input") for asked in bench.upstream.asked].count(["late"]) == 0


def test_a_deadline_ends_it(bench: UpstreamBench) -> None:
    bench.upstream.give(Reply(kind="application/json", holds=True))
    bench.begin()
    end = failed(ask(bench, embed("a", deadline_at=time.time() + 0.3)))
    assert end.code == "deadline_exceeded"
