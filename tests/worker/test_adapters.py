"""Adapters from a request to the engine, and what the engine says of them."""

from __future__ import annotations

import json

from inference.protocol.events import Failed, Started
from inference.protocol.requests import TextPrompt
from inference.protocol.spec import AdapterSpec
from tests.worker.conftest import MODEL, Bench, generate

ADAPTERS = (AdapterSpec("/x/rhymes.gguf", name="rhymes"), AdapterSpec("/x/off.gguf", scale=0.0))
PROMPT = TextPrompt("p" * 200)


def cached(bench: Bench, adapters: tuple[tuple[int, float], ...] | None) -> int:
    log = bench.ended(bench.submit(generate(prompt=PROMPT, adapters=adapters)))
    assert isinstance(log.started, Started)
    return log.started.cached_tokens


def test_a_request_that_chooses_none_gets_the_defaults(bench: Bench) -> None:
    bench.start(adapters=ADAPTERS, num_slots=1)
    assert cached(bench, None) == 0
    assert cached(bench, ((0, 1.0),)) == 199
    assert cached(bench, ((0, 1.0), (1, 0.0))) == 199
    assert cached(bench, ()) == 0
    assert cached(bench, ((0, 1.0), (1, 0.5))) == 0


def test_an_unknown_one_ends_the_request_alone(bench: Bench) -> None:
    bench.start(adapters=ADAPTERS)
    log = bench.ended(bench.submit(generate(adapters=((0, 1.0), (2, 1.0)))))
    assert isinstance(log.terminal, Failed)
    assert (log.terminal.code, log.terminal.param) == ("invalid_request", "lora[1].id")
    assert log.terminal.message == "there is no adapter 2; this model has 2"


def test_the_heartbeat_tells_them(bench: Bench) -> None:
    bench.start(adapters=ADAPTERS)
    (engine,) = bench.queue.engines(MODEL)
    one, other = json.loads(str(engine.info["adapters"]))
    assert (one["id"], one["name"], one["scale"]) == (0, "rhymes", 1.0)
    assert (other["id"], other["scale"]) == (1, 0.0)


def test_an_engine_shows_special_tokens_if_asked_to(bench: Bench) -> None:
    bench.start(special_tokens=True, reply="bye")
    log = bench.ended(bench.submit(generate()))
    assert "".join(text for _, text in log.parts) == "bye<|end|>"
