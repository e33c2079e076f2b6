"""Every route that asks an engine, with requests for it; and the others, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.edge.cases.families import BY_NAME
from tests.edge.cases.family import Family
from tests.edge.cases.said import Ask

LONG: Final = "x" * 5000  # one token a byte; no mock engine here has so much room
HI: Final = [{"role": "user", "content": "Hi"}]


@dataclass(frozen=True)
class Route:
    """`body`: a request that is served; `wrong`: what makes a client's mistake of it, in the field
    that is named first, `long`: what makes it too long. `family`: the one that writes here, with
    streams; None: there is no stream, and errors look as those of `errors`. `has_steps`: its engine
    computes for it. `cuts`: what is too long loses its end there."""

    path: str
    body: Mapping[str, Any]
    wrong: Mapping[str, Any]
    long: Mapping[str, Any] = field(default_factory=dict)
    family: Family | None = None
    errors: str = "chat"
    has_steps: bool = True
    cuts: bool = False

    @property
    def shape(self) -> Family:
        """Whose errors its are."""
        return self.family or BY_NAME[self.errors]

    def __str__(self) -> str:
        return self.path


def _writes(name: str, *paths: str, **more: Any) -> list[Route]:
    """The routes of a family that writes, below `paths` beside its own."""
    family = BY_NAME[name]
    body = {**family.body(Ask("hello there")), **more}
    long = {family.prompt: family.said(Ask(LONG))}
    wrong = {family.length.partition(".")[0]: "10"}
    return [Route(path, body, wrong, long, family) for path in (family.path, *paths)]


def _asks(*paths: str, **fields: Any) -> list[Route]:
    return [Route(path, **fields) for path in paths]


_GAP: Final = {"input_prefix": "a", "input_suffix": "b", "prompt": "hello there", "temperature": 0}
_RANK: Final = {"query": "hello", "documents": ["hallo", "xyz"]}
ROUTES: Final[list[Route]] = [
    *_writes("chat", "/chat/completions"),
    *_writes("text"),
    *_writes("responses", "/responses"),
    *_writes("messages"),
    *_writes("ollama"),
    *_writes("generate"),
    *_writes("native", "/completions"),
    Route("/infill", _GAP, {"n_predict": "10"}, {"prompt": LONG}, BY_NAME["native"]),
    *_asks(
        "/v1/chat/completions/input_tokens",
        "/chat/completions/input_tokens",
        body={"messages": HI},
        wrong={"messages": "x"},
        has_steps=False,
    ),
    *_asks(
        "/v1/responses/input_tokens",
        "/responses/input_tokens",
        body={"input": "Hi"},
        wrong={"input": 7},
        has_steps=False,
    ),
    *_asks(
        "/v1/messages/count_tokens",
        body={"messages": HI},
        wrong={"messages": "x"},
        errors="messages",
        has_steps=False,
    ),
    *_asks("/tokenize", body={"content": "ab"}, wrong={"content": 7}, has_steps=False),
    *_asks("/detokenize", body={"tokens": [97]}, wrong={"tokens": "x"}, has_steps=False),
    *_asks(
        "/apply-template",
        body={"messages": HI},
        wrong={"messages": "x"},
        has_steps=False,
    ),
    *_asks(
        *("/v1/embeddings", "/embeddings", "/embedding"),
        body={"input": "hello"},
        wrong={"input": [None]},
        long={"input": LONG},
    ),
    *_asks(
        *("/v1/rerank", "/v1/reranking", "/rerank", "/reranking"),
        body=_RANK,
        wrong={"documents": "x"},
        long={"documents": [LONG]},
    ),
    *_asks(
        "/api/embed",
        body={"input": "hello"},
        wrong={"input": 7},
        long={"input": LONG, "truncate": False},
        errors="ollama",
    ),
    *_asks(
        "/api/embeddings",
        body={"prompt": "hello"},
        wrong={"prompt": 7},
        long={"prompt": LONG},
        errors="ollama",
        cuts=True,
    ),
]

# Routes that take a body, and why they don't stand above.
OTHERS: Final[Mapping[str, str]] = {
    "/v1/chat/completions/control": "acts on an answer that another request has",
    "/v1/streams/lookup": "looks for streams of other requests",
    "/v1/responses/{response_id}/cancel": "ends another request's answer",
    "/v1/audio/transcriptions": "no engine here hears",
    "/v1/models": "an administrator's act",
    "/v1/models/load": "an administrator's act",
    "/v1/models/unload": "an administrator's act",
    "/v1/lora-adapters": "an administrator's act",
    "/props": "can't be changed by requests",
    "/slots/{id_slot}": "no engine here keeps slots in files",
    "/api/show": "is answered from what is known of the model",
}
