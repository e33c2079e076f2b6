"""An administrator's orders to an engine."""

from __future__ import annotations

import time
from typing import Any

import pytest

from inference.protocol.events import Finished, Started
from inference.protocol.params import ContextParams
from inference.protocol.requests import ControlRequest, TextPrompt
from llamaweb.lib.ids import new_id
from tests.worker.conftest import MODEL, WAIT_S, Bench, generate

PROMPT = TextPrompt("p" * 200)


def cached(bench: Bench, conversation: str) -> int:
    context = ContextParams(conversation=conversation)
    log = bench.ended(bench.submit(generate(prompt=PROMPT, context=context)))
    assert isinstance(log.started, Started)
    return log.started.cached_tokens


@pytest.mark.parametrize(
    ("order", "kept"),
    [
        ({}, 0),
        ({"conversations": ("c2", "c1")}, 0),
        ({"conversations": ("c2", "c3")}, 199),
        ({"of_owner": "somebody:9"}, 199),
    ],
)
def test_the_cache_is_cleared_of_what_is_meant(
    bench: Bench, order: dict[str, Any], kept: int
) -> None:
    bench.start(num_slots=1)
    assert cached(bench, "c1") == 0
    assert cached(bench, "c1") == 199
    now = time.time()
    control = ControlRequest(
        new_id("gen-"), MODEL, "user:1", now, now + WAIT_S, action="clear_cache", **order
    )
    bench.queue.submit(control)
    assert isinstance(bench.ended(control.generation_id).terminal, Finished)
    assert cached(bench, "c1") == kept
