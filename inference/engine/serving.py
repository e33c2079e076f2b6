"""What serves one model: an engine, and the pipeline that turns requests into what it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from inference.engine.contract import Prepared, StepEngine
from inference.engine.loading import OnLoad, go_on
from inference.engine.pipeline import build_pipeline
from inference.engine.whole import build_whole
from inference.protocol.requests import (
    ChatPrompt,
    EmbedRequest,
    GenerateRequest,
    Prompt,
    RerankRequest,
)
from inference.protocol.results import DescribeResult
from inference.protocol.spec import EngineSpec
from inference.text.answer.reader import AnswerReader


class Pipeline(Protocol):
    """Templates and tokens of one model; an engine takes only what its own pipeline made.

    All methods raise InvalidError for what can't be served, and NotSupportedError for what isn't
    known here.
    """

    def prepare(self, request: GenerateRequest) -> Prepared:
        """Render and tokenise."""
        ...

    def prepare_vectors(self, request: EmbedRequest | RerankRequest) -> Prepared:
        """Tokenise texts that are to become vectors or scores."""
        ...

    def reader(self, request: GenerateRequest, prepared: Any) -> AnswerReader | None:
        """What takes the answer's text apart, behind what was published of it; None: nothing."""
        ...

    def count(self, prompt: Prompt, *, now_at: float = 0.0) -> int:
        """Length of a prompt in tokens."""
        ...

    def render(self, prompt: ChatPrompt, *, now_at: float = 0.0) -> str:
        """The prompt as text."""
        ...

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """Token ids of `text`."""
        ...

    def pieces(self, tokens: Sequence[int]) -> tuple[str | tuple[int, ...], ...]:
        """The text of each token, or its bytes where those are none."""
        ...

    def describe(self) -> DescribeResult:
        """What chats are written with."""
        ...

    def detokenize(self, tokens: Sequence[int]) -> str:
        """The text of `tokens`."""
        ...

    def close(self) -> None:
        """End what it started."""
        ...


def build_serving(spec: EngineSpec, on_load: OnLoad = go_on) -> tuple[StepEngine[Any], Pipeline]:
    """Load what `spec` names; see `build_whole`."""
    if spec.engine_class == "upstream":
        # Only here: nobody else needs an HTTP client.
        from inference.engine.upstream.serving import build_upstream

        return build_upstream(spec)
    built = build_whole(spec, on_load)
    return built.engine, build_pipeline(
        built.tokenizer,
        spec.chat_template,
        built.engine.adapters,
        special=spec.special_tokens,
        max_context=built.engine.max_context,
        vectors=built.vectors,
        answers=built.answers,
    )
