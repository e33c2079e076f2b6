"""Answers of the utility requests; each rides in one `Result` event before `Finished`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class TokenizeResult:
    """Token ids of the text; `pieces`, if asked for: the text of each, or its bytes where those are
    none."""

    tokens: tuple[int, ...]
    pieces: tuple[str | tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class DetokenizeResult:
    """The text of the tokens; bytes that are none are U+FFFD."""

    text: str


@dataclass(frozen=True, slots=True)
class DescribeResult:
    """`chat_template` in Jinja, and what it takes: names of `TemplateCapabilities`, and
    "object_arguments"; the texts of the tokens that begin and end a text, "" without such."""

    chat_template: str
    capabilities: tuple[str, ...] = ()
    bos_token: str = ""
    eos_token: str = ""


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
    """What each input became: its vectors one after another as base64 of little-endian 32-bit
    floats, `dimensions` of them each. One vector an input, or one a token if not `is_pooled`."""

    vectors: tuple[str, ...]
    dimensions: int
    prompt_tokens: int
    is_pooled: bool = True


@dataclass(frozen=True, slots=True)
class RerankResult:
    """Scores, one a document, in the order asked."""

    scores: tuple[float, ...]
    prompt_tokens: int


UtilityResult: TypeAlias = (
    TokenizeResult
    | DetokenizeResult
    | DescribeResult
    | CountResult
    | RenderResult
    | EmbedResult
    | RerankResult
)
