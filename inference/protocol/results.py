"""Answers of the utility requests; each rides in one `Result` event before `Finished`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TokenizeResult:
    """Token ids of the text."""

    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CountResult:
    """Length of the prompt in tokens."""

    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class RenderResult:
    """The prompt as text."""

    text: str


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """Vectors, one an input."""

    vectors: tuple[tuple[float, ...], ...]
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class RerankResult:
    """Scores, one a document, in the order asked."""

    scores: tuple[float, ...]
    prompt_tokens: int


UtilityResult: TypeAlias = TokenizeResult | CountResult | RenderResult | EmbedResult | RerankResult
