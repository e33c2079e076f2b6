"""Whatever is turned away is counted once, by a name of ours; what had begun is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import REGISTRY

from inference.edge.families import FAMILIES, family_of
from inference.protocol.events import Cancelled, Failed
from llamaweb.lib.errors import BusyError, UnavailableError
from tests.edge.events import STARTED, delta
from tests.edge.wire import CHAT, TEXT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]


def counted() -> dict[tuple[str, str], float]:
    """What was turned away until now, by family and reason."""
    return {
        (sample.labels["family"], sample.labels["reason"]): sample.value
        for family in REGISTRY.collect()
        for sample in family.samples
        if sample.name == "llamaweb_rejected_total"
    }


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        (CHAT, {"temperature": "hot"}, "invalid"),
        (CHAT, {"model": "absent"}, "not_found"),
        (CHAT, {"stop": ["x"] * 17}, "stop"),
        (CHAT, {"stop": "x" * 257}, "stop"),
        (TEXT, {"n": 5}, "n"),
        (TEXT, {"logit_bias": [[number, 1] for number in range(4097)]}, "logit_bias"),
        (TEXT, {"prompt": ["x"] * 65}, "choices"),
        (TEXT, {"prompt": "x" * (4 * 1024 * 1024 + 1)}, "prompt"),
        (CHAT, {"json_schema": {"enum": ["x" * 131_072]}}, "schema"),
    ],
)
async def test_a_refusal_is_counted_by_its_bound(
    wire: Wire, fake: FakeInference, path: str, body: dict[str, Any], reason: str
) -> None:
    before = counted()
    status, _ = await wire.post(path, **body)
    assert 400 <= status < 500
    assert fake.submitted == []
    now = counted()
    assert now["openai", reason] == before.get(("openai", reason), 0) + 1
    assert sum(now.values()) == sum(before.values()) + 1


async def test_depth_is_a_bound_too(wire: Wire, fake: FakeInference) -> None:
    deep: Any = "x"
    for _ in range(70):
        deep = [deep]
    before = counted().get(("openai", "depth"), 0)
    status, _ = await wire.post(CHAT, stop=deep)
    assert status == 400
    assert counted()["openai", "depth"] == before + 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (BusyError("full", reason="queue_full", retry_after_s=3, position=9), "queue_full"),
        (UnavailableError("away"), "unavailable"),
    ],
)
async def test_the_queue_s_refusals_are_counted_once(
    wire: Wire, fake: FakeInference, error: Any, reason: str, stream: bool
) -> None:
    fake.refusal = error
    before = counted().get(("openai", reason), 0)
    status, body = await wire.post(CHAT, stream=stream)
    assert status == 503
    assert body["error"].get("position") == (9 if reason == "queue_full" else None)
    assert counted()["openai", reason] == before + 1


@pytest.mark.parametrize("end", [Failed("engine_failed", "no"), Cancelled("owner")])
@pytest.mark.parametrize("begun", [(), (STARTED, delta("Hi"))])
async def test_what_had_begun_was_not_turned_away(
    wire: Wire, says: Says, end: Any, begun: tuple[Any, ...]
) -> None:
    says(*begun, end)
    before = sum(counted().values())
    status, _ = await wire.post(CHAT)
    assert status == (403 if isinstance(end, Cancelled) else 500)
    assert sum(counted().values()) == before


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("/v1/chat/completions", "openai"),
        ("/chat/completions", "openai"),
        ("/v1/completions", "openai"),
        ("/completion", "native"),
        ("/completions", "native"),
        ("/infill", "native"),
        ("/v1/messages/count_tokens", "anthropic"),
        ("/v1/responses/abc", "responses"),
        ("/v1/embeddings", "embeddings"),
        ("/embedding", "embeddings"),
        ("/v1/rerank", "embeddings"),
        ("/api/chat", "ollama"),
        ("/api/embed", "embeddings"),
        ("/v1/models/x", "models"),
        ("/models", "models"),
        ("/tokenize", "native"),
    ],
)
def test_an_address_is_of_one_family(path: str, family: str) -> None:
    assert family_of(path) == family
    assert family in FAMILIES


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/v1/chat/completions", "error"),
        ("/v1/messages", "error"),
        ("/api/chat", ""),
    ],
)
async def test_every_family_names_the_bound_and_the_place(
    wire: Wire, fake: FakeInference, path: str, where: str
) -> None:
    fake.refusal = BusyError("full", reason="queue_full", retry_after_s=7.4, position=9)
    body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5, "stream": False}
    response = await wire.raw(path, json.dumps(body).encode())
    told = json.loads(response.content)
    told = told[where] if where else told
    assert (response.status_code, response["Retry-After"]) == (503, "7")
    assert (told["reason"], told["position"]) == ("queue_full", 9)
