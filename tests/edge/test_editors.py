"""Editors ask for many short completions, and drop most of them."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from inference.edge.submission import Run
from tests.edge.events import STARTED, answer, delta
from tests.edge.test_disconnect import AsgiClient, hanging, until
from tests.edge.wire import TEXT, Wire
from tests.fakes.inference_api import FakeInference, scripted

NUM_KEYS = 24
GAP = {"prompt": "def add(a, b):\n    ", "suffix": "\n", "max_tokens": 64, "stop": ["\n\n"]}
INFILL = {"input_prefix": "def add(a, b):\n    ", "input_suffix": "\n", "n_predict": 64}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("path", "fields"), [(TEXT, GAP), ("/infill", INFILL)])
async def test_an_editor_that_asks_at_each_key_leaves_nothing_behind(
    fake: FakeInference, wire: Wire, path: str, fields: dict[str, Any], stream: bool
) -> None:
    """It drops what it asked for when the next key comes, wherever that is by then."""
    tasks, runs = asyncio.all_tasks(), _num_runs()
    fake.script = hanging(STARTED, delta("return"))
    for key in range(NUM_KEYS):
        client = AsgiClient(path, stream=stream, **fields)
        for _ in range(key):  # so far it comes
            await asyncio.sleep(0)
        if key % 3 == 0:
            await until(lambda: bool(fake.reading))
        await client.leave()
    submitted = {(request.generation_id, "reader_gone") for request in fake.submitted}
    assert len(submitted) >= NUM_KEYS // 3
    await until(lambda: set(fake.cancelled) == submitted and not fake.reading)
    assert len(fake.cancelled) == len(submitted)
    await until(lambda: asyncio.all_tasks() <= tasks)
    del client
    await until(lambda: _num_runs() <= runs)
    fake.script = scripted(*answer("return a + b"))
    assert (await wire.post(path, **fields))[0] == 200


def _num_runs() -> int:
    gc.collect()
    return sum(type(each) is Run for each in gc.get_objects())
