"""The name of the API family that a request is of, for ledgers and metrics."""

from __future__ import annotations

from typing import Final

OPENAI: Final = "openai"
NATIVE: Final = "native"
# The first that fits the address without its /v1, which most routes are served with and without.
_BY_START: Final = (
    ("/messages", "anthropic"),
    ("/responses", "responses"),
    ("/api/embed", "embeddings"),
    ("/api/", "ollama"),
    ("/embedding", "embeddings"),
    ("/rerank", "embeddings"),
    ("/reranking", "embeddings"),
    ("/chat/completions", OPENAI),
    ("/models", "models"),
    ("/lora-adapters", "models"),
)
FAMILIES: Final = tuple(dict.fromkeys((OPENAI, NATIVE, *(family for _, family in _BY_START))))


def family_of(path: str) -> str:
    """One of `FAMILIES`, by the address of a request."""
    with_v1 = path.startswith("/v1/")
    rest = path[len("/v1") :] if with_v1 else path
    found = (family for start, family in _BY_START if rest.startswith(start))
    return next(found, OPENAI if with_v1 else NATIVE)
