"""Starts owned generations in a running instance, follows them, and says what became of them.

`python -m tests.faults.driver` reads {"env", "prompts", "max_tokens", "timeout_s"} as JSON on
standard input, prints "started" once all are committed, then one JSON list of {"id", "followed",
"stored", "state", "resets", "usage"} when all have ended. The instance's variables come in "env",
so that the driver isn't taken for one of the instance's own processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

import django


def start(prompts: list[str], max_tokens: int | None, timeout_s: float) -> list[tuple[str, str]]:
    """Commit one generation a prompt; returns (model, id) pairs."""
    from django.contrib.auth import get_user_model

    from inference import api
    from inference.protocol.params import Limits, SamplingParams
    from inference.protocol.requests import ChatPrompt, GenerateRequest, Message
    from inference.registry.generations import ON_FINISH
    from inference.registry.selectors import model_resolve
    from llamaweb.lib.ids import new_id

    owner, _ = get_user_model().objects.get_or_create(username="faults")
    model = model_resolve(None).name
    out = []
    for prompt in prompts:
        now = time.time()
        request = GenerateRequest(
            generation_id=new_id("gen-"),
            model=model,
            owner_key=f"user:{owner.pk}",
            cache_scope=f"user:{owner.pk}",
            prompt=ChatPrompt((Message("user", prompt),)),
            seed=1,
            submitted_at=now,
            deadline_at=now + timeout_s,
            sampling=SamplingParams(temperature=0.0),
            limits=Limits(max_tokens=max_tokens),
            on_finish=ON_FINISH,
            keep=True,
        )
        api.generation_create(owner=owner, request=request)
        out.append((model, request.generation_id))
    return out


async def follow(model: str, generation_id: str) -> tuple[str, int]:
    """What a reader sees from start to end, and how often it was reset."""
    from inference import api
    from inference.protocol.fold import EMPTY, fold, text_of
    from inference.queues.contract import Read

    snapshot, resets = EMPTY, 0
    # Its row is committed: should Redis forget it before the first look, it comes again.
    async for item in api.generation_events(model, generation_id, expected=True):
        if not isinstance(item, Read):
            continue
        if item.reset is not None:
            snapshot, resets = item.reset, resets + 1
        snapshot = fold(snapshot, item.entries)
    return text_of(snapshot), resets


async def stored(generation_id: str, timeout_s: float) -> Any:
    """The row once it is final."""
    from inference.models import Generation

    until = time.monotonic() + timeout_s
    while True:
        row = await Generation.objects.aget(id=generation_id)
        if row.state != Generation.State.QUEUED or time.monotonic() > until:
            return row
        await asyncio.sleep(0.1)


async def watch(model: str, generation_id: str, timeout_s: float) -> dict[str, Any]:
    """Follow one generation to its end, then read its row."""
    try:
        followed, resets = await asyncio.wait_for(follow(model, generation_id), timeout_s)
    except TimeoutError:
        followed, resets = "(reader timed out)", 0
    row = await stored(generation_id, timeout_s=20)
    return {
        "id": generation_id,
        "followed": followed,
        "stored": "".join(text for _, text in row.parts),
        "state": row.state,
        "error": row.error_message,
        "resets": resets,
        "usage": [row.prompt_tokens, row.completion_tokens],
    }


async def watch_all(started: list[tuple[str, str]], timeout_s: float) -> list[dict[str, Any]]:
    """All at once."""
    from inference import api

    try:
        return await asyncio.gather(*(watch(model, gid, timeout_s) for model, gid in started))
    finally:
        await api.streams_close()


def main() -> None:
    """See the module."""
    order = json.loads(sys.stdin.readline())
    os.environ.update(order["env"])
    django.setup()
    started = start(order["prompts"], order.get("max_tokens"), order["timeout_s"])
    print("started", flush=True)
    print(json.dumps(asyncio.run(watch_all(started, order["timeout_s"]))), flush=True)


if __name__ == "__main__":
    main()
