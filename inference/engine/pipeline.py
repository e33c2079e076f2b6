"""From a request to a sequence: the text side of one model in front of its engine."""

from __future__ import annotations

from collections.abc import Sequence

from inference.engine.adapters import Adapter, chosen_scales
from inference.engine.contract import SequenceRequest
from inference.engine.samplers import check_grammar
from inference.protocol.requests import ChatPrompt, GenerateRequest, Prompt
from inference.text.chat_renderer import ChatRenderer, renderer_for
from inference.text.prompts import TextPipeline
from inference.text.tokenizer import Tokenizer


class Pipeline:
    """Templates and tokens of one model; `close` ends the renderer's child process."""

    def __init__(
        self, text: TextPipeline, renderer: ChatRenderer, adapters: Sequence[Adapter] = ()
    ) -> None:
        self._text = text
        self._renderer = renderer
        self._adapters = adapters

    def prepare(self, request: GenerateRequest) -> SequenceRequest:
        """Render and tokenise `request`.

        Raises:
            InvalidError: the template refuses the messages, the prompt is empty, the grammar
                can't be read, or there is no such adapter.
        """
        adapters = chosen_scales(self._adapters, request.adapters)
        check_grammar(request.sampling.grammar, self._text.tokenizer)
        prepared = self._text.prepare(request.prompt, now_at=request.submitted_at)
        return SequenceRequest(
            generation_id=request.generation_id,
            tokens=prepared.tokens,
            owner_key=request.owner_key,
            cache_scope=request.cache_scope,
            seed=request.seed,
            public_len=prepared.public_len,
            lane=request.lane,
            sampling=request.sampling,
            limits=request.limits,
            preserved=self._text.preserved_tokens(request.preserved_tokens),
            context=request.context,
            adapters=adapters,
        )

    def count(self, prompt: Prompt, *, now_at: float = 0.0) -> int:
        """Length of `prompt` in tokens; raises like `prepare`."""
        return self._text.count(prompt, now_at=now_at)

    def render(self, prompt: ChatPrompt, *, now_at: float = 0.0) -> str:
        """The chat as the template writes it; raises like `prepare`."""
        return self._text.render(prompt, now_at=now_at)

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """Token ids of `text`."""
        return tuple(
            self._text.tokenize(text, add_special=add_special, parse_special=parse_special)
        )

    def close(self) -> None:
        """End what it started."""
        self._renderer.close()


def build_pipeline(
    tokenizer: Tokenizer, chat_template: str | None = None, adapters: Sequence[Adapter] = ()
) -> Pipeline:
    """The pipeline of a model and its engine's `adapters`; `chat_template` overrides the model's
    own."""
    renderer = renderer_for(tokenizer, chat_template)
    return Pipeline(TextPipeline(tokenizer, renderer), renderer, adapters)
