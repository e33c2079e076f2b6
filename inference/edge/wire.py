"""What an API family says on the wire, one way for streams and whole replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import orjson

from inference.edge.steps import Step
from llamaweb.lib import event_stream
from llamaweb.lib.errors import LlamawebError


@dataclass(frozen=True, slots=True)
class Frame:
    """One object of a stream; `event`: its name, where the family gives them names."""

    data: dict[str, Any]
    event: str = ""


class Encoding(Protocol):
    """How frames become bytes."""

    content_type: ClassVar[str]
    silence: ClassVar[bytes]  # says that the stream lives, and nothing else

    def frame(self, frame: Frame, event_id: str | None) -> bytes:
        """`frame`, under an id where the encoding has such."""
        ...

    def note(self, text: str) -> bytes:
        """Words for people who look at the stream."""
        ...


class ServerSentEvents:
    """See `Encoding`."""

    content_type: ClassVar = event_stream.CONTENT_TYPE
    silence: ClassVar = event_stream.PING

    def frame(self, frame: Frame, event_id: str | None) -> bytes:
        """See `Encoding`."""
        return event_stream.event(orjson.dumps(frame.data), event_id, frame.event)

    def note(self, text: str) -> bytes:
        """See `Encoding`."""
        return event_stream.comment(text)


class JsonLines:
    """See `Encoding`: an object a line. What says nothing is a space in front of the next one: the
    official client reads every line as JSON, an empty one too."""

    content_type: ClassVar = "application/x-ndjson"
    silence: ClassVar = b" "

    def frame(self, frame: Frame, event_id: str | None) -> bytes:
        """See `Encoding`."""
        return orjson.dumps(frame.data) + b"\n"

    def note(self, text: str) -> bytes:
        """See `Encoding`; there is no place for words."""
        return self.silence


class Wire(Protocol):
    """One reply of a family: a pure fold of the steps of its generations from the first one on, so
    that a stream that is taken up again is the same, byte for byte."""

    encoding: ClassVar[Encoding]
    tail: ClassVar[bytes]  # behind the last frame of a complete stream

    @property
    def is_silent(self) -> bool:
        """Whether nothing is said before the first token."""
        ...

    @property
    def places(self) -> Sequence[str]:
        """Where the request has the schemas of its tools, see `inference.edge.tool_places`."""
        ...

    def render(self, index: int, step: Step) -> list[Frame]:
        """The frames of a step of generation `index`; a Broken one has none, see `error`."""
        ...

    def end(self) -> list[Frame]:
        """Frames behind the end of the last generation."""
        ...

    def error(self, error: LlamawebError) -> list[Frame]:
        """The last frames of a stream that ends incomplete."""
        ...

    def whole(self, frames: Sequence[Frame]) -> dict[str, Any]:
        """The reply without streaming: all frames, joined; every generation has ended."""
        ...
