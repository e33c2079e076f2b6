"""`timings_per_token`: each chunk of text tells the time up to it, streamed, on each route."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from inference.protocol.events import Delta, Event, Timings
from tests.edge.events import STARTED, finished
from tests.edge.wire import CHAT, TEXT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
NATIVE = "/completion"


def timed(*texts: str) -> Sequence[Event]:
    """An answer whose tokens come 10 ms apart, behind a prompt that took 60."""
    deltas = [
        Delta(text, (number,), timings=Timings(prefill_ms=60.0, decode_ms=10.0 * number))
        for number, text in enumerate(texts)
    ]
    return [STARTED, *deltas, finished()]


async def timings_of(wire: Wire, path: str, **fields: Any) -> list[dict[str, Any] | None]:
    """Of each chunk that has text."""
    data = (await wire.stream(path, timings_per_token=True, **fields)).data
    return [chunk.get("timings") for chunk in data if _says(chunk)]


def _says(chunk: dict[str, Any]) -> bool:
    if "content" in chunk:
        return bool(chunk["content"])
    choice = chunk["choices"][0] if chunk["choices"] else {}
    return bool(choice.get("text") or choice.get("delta", {}).get("content"))


@pytest.mark.parametrize("path", [CHAT, TEXT, NATIVE])
async def test_each_chunk_of_text_has_the_time_up_to_it(says: Says, wire: Wire, path: str) -> None:
    fake = says(*timed("a", "b", "c"))
    told = await timings_of(wire, path)
    assert fake.submitted[-1].sampling.timings_per_token
    assert [each and each["predicted_n"] for each in told] == [1, 2, 3]
    assert [each and each["predicted_ms"] for each in told] == [0.0, 10.0, 20.0]
    assert {each and (each["prompt_n"], each["cache_n"], each["prompt_ms"]) for each in told} == {
        (6, 4, 60.0)
    }


@pytest.mark.parametrize("path", [CHAT, TEXT, NATIVE])
async def test_a_whole_reply_is_the_same_with_it(says: Says, wire: Wire, path: str) -> None:
    says(*timed("a", "b"))
    replies = [(await wire.post(path, seed=1, timings_per_token=each))[1] for each in (True, False)]
    for reply in replies:
        for name in ("id", "created", "generation_settings"):
            reply.pop(name, None)
    assert replies[0] == replies[1]
    assert replies[0]["timings"]["predicted_n"] == 3


async def test_the_settings_tell_it(says: Says, wire: Wire) -> None:
    says(*timed("a"))
    for wanted in (True, False):
        _, body = await wire.post(NATIVE, timings_per_token=wanted)
        assert body["generation_settings"]["timings_per_token"] is wanted


@pytest.mark.parametrize("path", [CHAT, TEXT, NATIVE])
async def test_it_is_true_or_false(says: Says, wire: Wire, path: str) -> None:
    says(*timed("a"))
    status, body = await wire.post(path, timings_per_token="yes")
    assert (status, body["error"]["param"]) == (400, "timings_per_token")
