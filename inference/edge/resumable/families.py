"""The API families whose streams can be taken up again: what renders one of theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from inference.edge.anthropic.render import MessageWire
from inference.edge.native.render import NativeWire
from inference.edge.ollama.render import OllamaWire
from inference.edge.openai.wire import OpenAIWire
from inference.edge.responses.render import ResponsesWire
from inference.edge.wire import Wire
from inference.protocol.requests import GenerateRequest


@dataclass(frozen=True, slots=True)
class Family:
    """`kind` of its wires, and how one is made of requests of which only model, ids, times, seed
    and `reply` are known. `shows_request`: it shows more of them, which is kept then, too, but of a
    prompt only its text."""

    kind: type
    make: Callable[[Sequence[GenerateRequest]], Wire]
    shows_request: bool = False


FAMILIES: Final[Mapping[str, Family]] = {
    "openai": Family(OpenAIWire, OpenAIWire),
    "anthropic": Family(MessageWire, lambda requests: MessageWire(requests[0])),
    "native": Family(NativeWire, NativeWire, shows_request=True),
    "responses": Family(ResponsesWire, lambda requests: ResponsesWire(requests[0].reply)),
    "ollama": Family(OllamaWire, lambda requests: OllamaWire(requests[0])),
}


def family_of(wire: Wire) -> str | None:
    """The name of the family that `wire` is of; None: it isn't rendered again."""
    return next((name for name, family in FAMILIES.items() if type(wire) is family.kind), None)
