"""The official OpenAI client's embeddings, and reranking as Jina's and TEI's clients ask for it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import httpx2 as httpx
import openai
import pytest
from openai import OpenAI
from openai.resources import Embeddings

from tests.stack import Stack

TIMEOUT_S = 30.0


def client(stack: Stack, key: str) -> OpenAI:
    return OpenAI(base_url=f"{stack.base_url}/v1", api_key=key, max_retries=0, timeout=TIMEOUT_S)


@pytest.fixture
def asked(stack: Stack, key: str) -> Iterator[Embeddings]:
    """The official client's embeddings, closed behind the test."""
    with client(stack, key) as made:
        yield made.embeddings


def test_embeddings_are_base64_by_default(asked: Embeddings) -> None:
    found = asked.create(model="mock", input=["a cat", "a dog", "a cat"])
    assert [item.index for item in found.data] == [0, 1, 2]
    assert found.data[0].embedding == found.data[2].embedding != found.data[1].embedding
    assert math.hypot(*found.data[0].embedding) == pytest.approx(1.0, abs=1e-5)
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (15, 15)
    numbers = asked.create(model="mock", input="a cat", encoding_format="float")
    assert numbers.data[0].embedding == pytest.approx(found.data[0].embedding, abs=1e-6)
    ids = asked.create(model="mock", input=[list(b"a cat")])
    assert ids.data[0].embedding == found.data[0].embedding
    assert len(asked.create(model="mock", input="x", dimensions=16).data[0].embedding) == 16


def test_a_thousand_embeddings_in_one_request(asked: Embeddings) -> None:
    found = asked.create(model="mock", input=[f"text {number}" for number in range(1000)])
    assert len(found.data) == 1000
    assert {len(item.embedding) for item in found.data} == {64}


def test_embedding_mistakes_are_the_clients_errors(stack: Stack, asked: Embeddings) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        asked.create(model="mock", input="x" * 600)
    assert caught.value.body["n_ctx"] == 512  # type: ignore[index]
    with pytest.raises(openai.BadRequestError):
        asked.create(model="mock", input=[])
    with pytest.raises(openai.NotFoundError):
        asked.create(model="absent", input="x")
    with client(stack, "wrong") as other, pytest.raises(openai.AuthenticationError):
        other.embeddings.create(model="mock", input="x")


@pytest.mark.parametrize("path", ["/v1/rerank", "/v1/reranking", "/rerank", "/reranking"])
def test_rerank_over_http(stack: Stack, key: str, path: str) -> None:
    body = {"query": "abc", "documents": ["xyz", "abc"], "top_n": 1}
    headers = {"Authorization": f"Bearer {key}"}
    response = httpx.post(f"{stack.base_url}{path}", json=body, headers=headers, timeout=TIMEOUT_S)
    assert response.status_code == 200
    assert response.json()["results"] == [{"index": 1, "relevance_score": 1.0}]


def test_embeddings_in_llama_servers_shape(stack: Stack, key: str) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    response = httpx.post(
        f"{stack.base_url}/embedding",
        json={"content": ["a", "b"]},
        headers=headers,
        timeout=TIMEOUT_S,
    )
    assert response.status_code == 200
    assert [len(item["embedding"][0]) for item in response.json()] == [64, 64]
