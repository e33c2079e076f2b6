"""Scores on the wire, in Jina's and TEI's shapes."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from inference.edge.embeddings.inputs import MAX_INPUTS
from inference.edge.prompt_bounds import MAX_REQUEST_CHARS
from tests.edge.wire import Wire
from tests.fakes.inference_api import FakeInference

PATH = "/v1/rerank"
TEXTS = ["xyz", "abc", "abx", "abc"]
ORDER = [1, 3, 2, 0]  # of equals the first stays first
Use = Callable[..., FakeInference]


async def post(wire: Wire, **body: Any) -> tuple[int, Any]:
    response = await wire.raw(PATH, json.dumps({"query": "abc", **body}).encode())
    return response.status_code, json.loads(response.content)


async def test_jinas_shape_is_sorted(engine: Use, wire: Wire) -> None:
    engine()
    status, body = await post(wire, model="tiny", documents=TEXTS)
    assert status == 200
    assert (body["object"], body["model"]) == ("list", "tiny")
    assert [item["index"] for item in body["results"]] == ORDER
    scores = [item["relevance_score"] for item in body["results"]]
    assert scores == sorted(scores, reverse=True)
    num = sum(len("abc") + 1 + len(text) for text in TEXTS)
    assert body["usage"] == {"prompt_tokens": num, "total_tokens": num}


async def test_teis_shape_is_a_list(engine: Use, wire: Wire) -> None:
    engine()
    _, body = await post(wire, texts=TEXTS)
    assert [item["index"] for item in body] == ORDER
    assert body[0] == {"index": 1, "score": 1.0}
    _, body = await post(wire, texts=TEXTS, return_text=True, top_n=2)
    assert body == [
        {"index": 1, "score": 1.0, "text": "abc"},
        {"index": 3, "score": 1.0, "text": "abc"},
    ]


async def test_the_best_ones(engine: Use, wire: Wire) -> None:
    engine()
    for top_n, num in ((1, 1), (4, 4), (400, 4)):
        _, body = await post(wire, documents=TEXTS, top_n=top_n)
        assert [item["index"] for item in body["results"]] == ORDER[:num]
    _, body = await post(wire, documents=TEXTS, top_n=None)
    assert len(body["results"]) == 4


async def test_documents_may_be_objects(engine: Use, wire: Wire) -> None:
    engine()
    _, body = await post(wire, documents=[{"text": text} for text in TEXTS])
    assert [item["index"] for item in body["results"]] == ORDER


async def test_a_long_text_is_cut_where_that_is_wanted(engine: Use, wire: Wire) -> None:
    engine()
    status, body = await post(wire, texts=["abc" * 300, "x"])
    assert (status, body["error"]["param"]) == (400, "texts[0]")
    status, body = await post(wire, texts=["abc" * 300, "x"], truncate=True)
    assert status == 200
    assert body[0] == {"index": 0, "score": 1.0}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"query": None, "documents": ["a"]}, "query"),
        ({"query": ["a"], "documents": ["a"]}, "query"),
        ({}, "documents"),
        ({"documents": []}, "documents"),
        ({"documents": "a"}, "documents"),
        ({"documents": ["a", 5]}, "documents[1]"),
        ({"texts": ["a", {"no": "text"}]}, "texts[1]"),
        ({"documents": ["a"], "top_n": 0}, "top_n"),
        ({"documents": ["a"], "top_n": "1"}, "top_n"),
        ({"texts": ["a"], "return_text": "yes"}, "return_text"),
        ({"documents": ["a"] * (MAX_INPUTS + 1)}, "documents"),
        ({"query": "q" * 3000, "documents": ["a"] * 2000}, "documents"),
        ({"query": "q" * 600, "documents": ["a"]}, "query"),
    ],
)
async def test_refused_by_name(engine: Use, wire: Wire, fields: dict[str, Any], param: str) -> None:
    engine()
    status, body = await post(wire, **fields)
    assert status == 400
    assert body["error"]["param"] == param


async def test_a_long_query_is_refused_before_it_is_joined_to_each_text(
    engine: Use, wire: Wire
) -> None:
    fake = engine()
    query, texts = "q" * 20_000, ["a"] * MAX_INPUTS
    tracemalloc.start()
    try:
        status, body = await post(wire, query=query, documents=texts)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (status, body["error"]["param"]) == (400, "documents")
    assert f"has {MAX_INPUTS * 20_001} characters" in body["error"]["message"]
    assert str(MAX_REQUEST_CHARS) in body["error"]["message"]
    assert peak < MAX_INPUTS * 20_000 / 4
    assert not fake.submitted
