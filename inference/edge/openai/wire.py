"""The OpenAI family's side of `inference.edge.replies`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from inference.edge.errors import error_reply
from inference.edge.openai.options import options_from_json
from inference.edge.openai.render import ChoiceRenderer, text_usage, usage_chunk, whole_reply
from inference.edge.steps import End, Step
from inference.edge.wire import Encoding, Frame, ServerSentEvents
from inference.protocol.requests import GenerateRequest
from llamaweb.lib.errors import LlamawebError


class OpenAIWire:
    """See `Wire`; a choice a generation."""

    encoding: ClassVar[Encoding] = ServerSentEvents()
    tail: ClassVar = b"data: [DONE]\n\n"

    def __init__(self, requests: Sequence[GenerateRequest]) -> None:
        self._choices = [
            ChoiceRenderer(r.reply, options_from_json(r.reply.options_json)) for r in requests
        ]

    @property
    def is_silent(self) -> bool:
        """See `Wire`."""
        return self._choices[0].options.kind == "text"

    @property
    def places(self) -> Sequence[str]:
        """See `Wire`."""
        return self._choices[0].options.places

    def render(self, index: int, step: Step) -> list[Frame]:
        """See `Wire`."""
        chunks = self._choices[index].render(step)
        if isinstance(step, End) and (usage := text_usage(self._choices)) is not None:
            chunks[-1]["usage"] = usage
        return [Frame(chunk) for chunk in chunks]

    def end(self) -> list[Frame]:
        """See `Wire`."""
        usage = usage_chunk(self._choices)
        return [] if usage is None else [Frame(usage)]

    def error(self, error: LlamawebError) -> list[Frame]:
        """See `Wire`."""
        return [Frame(error_reply(error).body)]

    def whole(self, frames: Sequence[Frame]) -> dict[str, Any]:
        """See `Wire`."""
        return whole_reply(self._choices, [frame.data for frame in frames])
