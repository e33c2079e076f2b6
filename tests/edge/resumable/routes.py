"""Every route that streams, with a request for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from inference.protocol.events import CallRef, Delta, Event, Progress, Timings
from inference.protocol.requests import GenerateRequest
from tests.edge.events import STARTED, delta, finished, logprobs
from tests.edge.resumable.client import HELLO, TOOL


@dataclass(frozen=True)
class Route:
    """`has_ids`: its events have ids that tell places."""

    name: str
    path: str
    body: dict[str, Any]
    has_ids: bool = True

    def __str__(self) -> str:
        return self.name


ROUTES = [
    Route(
        "chat",
        "/v1/chat/completions",
        {
            "messages": HELLO,
            "tools": [TOOL],
            "stream": True,
            "stream_options": {"include_usage": True},
            "logprobs": True,
            "return_progress": True,
            "timings_per_token": True,
        },
    ),
    Route("choices", "/v1/chat/completions", {"messages": HELLO, "stream": True, "n": 3}),
    Route("text", "/v1/completions", {"prompt": "Hello", "stream": True}),
    Route("texts", "/v1/completions", {"prompt": ["a", "b"], "n": 2, "stream": True}),
    Route("native", "/completion", {"prompt": "Hello", "stream": True, "return_tokens": True}),
    Route("infill", "/infill", {"input_prefix": "a", "input_suffix": "b", "stream": True}),
    Route(
        "messages",
        "/v1/messages",
        {"model": "tiny", "max_tokens": 64, "messages": HELLO, "stream": True},
    ),
    Route("responses", "/v1/responses", {"input": "Hello", "stream": True, "store": False}, False),
    Route("ollama chat", "/api/chat", {"model": "tiny", "messages": HELLO}, False),
    Route("ollama generate", "/api/generate", {"model": "tiny", "prompt": "Hello"}, False),
]
WITH_IDS = [route for route in ROUTES if route.has_ids]
TEXT = "I look it up. 😺"


def _timed(event: Delta, request: GenerateRequest) -> Delta:
    wanted = request.sampling.timings_per_token
    return replace(event, timings=Timings(1.0, 2.0, 3.0)) if wanted else event


def talks(request: GenerateRequest) -> Sequence[Event]:
    """Reasoning, text and a call; every answer of a request is another one."""
    number = request.seed % 5
    pieces = [f"{number}", *TEXT]
    return [
        STARTED,
        Progress(5, 10),
        Progress(10, 10),
        Delta("Hm", (1, 2), kind="reasoning", logprobs=(logprobs("H"), logprobs("m"))),
        *(_timed(delta(piece), request) for piece in pieces),
        Delta("", (), kind="tool_call", call=CallRef(0, "call_1", "f")),
        Delta('{"a"', (9,), kind="tool_call", call=CallRef(0)),
        Delta(": 1}", (9, 8), kind="tool_call", call=CallRef(0, end="complete")),
        finished("tool_calls"),
    ]
