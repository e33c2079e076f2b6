"""Every streaming route, cut at every event and taken up again, in this process and by another."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from inference.protocol.events import Failed
from tests.edge.events import STARTED, answer, delta
from tests.edge.resumable.client import NAME, Streams
from tests.edge.resumable.reading import cuts_of, data_of
from tests.edge.resumable.routes import ROUTES, TEXT, WITH_IDS, Route, talks
from tests.fakes.kept_logs import KeptLogs

WAIT_S = 10.0
CHAT = ROUTES[0]


async def uncut(kept: KeptLogs, streams: Streams, route: Route) -> bytes:
    """The whole stream, as its first client gets it."""
    kept.says = talks
    status, raw = await streams.post(route.path, route.body)
    assert status == 200, raw
    assert streams.headers["X-Conversation-Id"] == NAME
    assert all(request.keep for request in kept.submitted)
    return raw


@pytest.mark.parametrize("route", WITH_IDS, ids=str)
async def test_behind_every_event(kept: KeptLogs, streams: Streams, route: Route) -> None:
    whole = await uncut(kept, streams, route)
    cuts = cuts_of(whole)
    assert len(cuts) >= len(TEXT)
    for event_id, before in cuts:
        status, rest = await streams.take_up(last=event_id)
        assert (status, before + rest) == (200, whole), event_id
    last_id = cuts[len(cuts) // 2][0]
    assert await streams.take_up("", last=last_id) == await streams.take_up(last=last_id)


@pytest.mark.parametrize("route", ROUTES, ids=str)
async def test_from_every_byte_that_a_client_may_stop_at(
    kept: KeptLogs, streams: Streams, route: Route
) -> None:
    whole = await uncut(kept, streams, route)
    ends = [i + 1 for i, byte in enumerate(whole) if byte == 10 and whole[i - 1 : i] in b"\n}"]
    for offset in {0, 1, 7, len(whole) // 2, len(whole) - 1, len(whole), *ends}:
        status, rest = await streams.take_up(**{"from": offset})
        assert (status, whole[:offset] + rest) == (200, whole), offset
    status, rest = await streams.take_up(**{"from": len(whole) + 1})
    assert (status, json.loads(rest)["error"]["param"]) == (400, "from")
    assert (await streams.get(f"/v1/stream/{NAME}"))[1] == whole


@pytest.mark.parametrize("route", ROUTES, ids=str)
async def test_an_answer_that_failed(kept: KeptLogs, streams: Streams, route: Route) -> None:
    kept.says = lambda request: [
        STARTED,
        delta("a"),
        *([delta("b")] * (request.seed % 3)),
        Failed("engine_failed", "it broke"),
    ]
    status, whole = await streams.post(route.path, {**route.body, "seed": 1})
    assert status == 200
    assert b"it broke" in whole
    for offset in range(0, len(whole) + 1, 37):
        assert (await streams.take_up(**{"from": offset}))[1] == whole[offset:]
    for event_id, before in cuts_of(whole) if route.has_ids else []:
        assert before + (await streams.take_up(last=event_id))[1] == whole


async def test_while_it_is_written(kept: KeptLogs, streams: Streams) -> None:
    chat = replace(CHAT, body={**CHAT.body, "seed": 1})
    whole = await uncut(kept, streams, chat)
    name = "again"
    kept.shown, first = 4, len(kept.submitted)
    began = await streams.begin(chat.path, chat.body, **{"X-Conversation-Id": name})
    parts = began.streaming_content.__aiter__()
    seen = await parts.__anext__()
    await parts.aclose()  # the client is gone
    generation_id = kept.submitted[first].generation_id
    resumed = asyncio.ensure_future(streams.take_up(name, last=cuts_of(seen)[-1][0]))
    for kept.shown in range(4, 40):
        await asyncio.sleep(0.002)
    async with asyncio.timeout(WAIT_S):
        status, rest = await resumed
    assert (status, kept.cancelled) == (200, [])
    told = rest.removeprefix(b":\n\n")
    assert [o["choices"] for o in data_of(seen + told)] == [o["choices"] for o in data_of(whole)]
    assert generation_id.encode() in seen


@pytest.mark.parametrize("route", WITH_IDS, ids=str)
@pytest.mark.parametrize("seq", [2, 7, 25])
async def test_behind_every_event_of_a_log_that_was_cut(
    kept: KeptLogs, streams: Streams, route: Route, seq: int
) -> None:
    whole = await uncut(kept, streams, route)
    for request in kept.submitted:
        kept.cut(request.generation_id, seq)
    for event_id, before in cuts_of(whole):
        status, rest = await streams.take_up(last=event_id)
        assert status == 200
        assert texts_of(before + rest) == texts_of(whole), event_id
    status, again = await streams.take_up()
    assert (status, texts_of(again)) == (200, texts_of(whole))
    status, refused = await streams.take_up(**{"from": 5})
    assert (status, "offset lost" in json.loads(refused)["error"]["message"]) == (410, True)


def texts_of(raw: bytes) -> dict[str, str]:
    """All that a stream says, joined: by choice and kind."""
    out: dict[str, str] = {}

    def add(key: str, value: Any) -> None:
        if isinstance(value, str) and value:
            out[key] = out.get(key, "") + value

    for each in data_of(raw):
        if "prompt_progress" in each:
            continue
        for choice in each.get("choices", ()):
            index, said = choice["index"], choice.get("delta", choice)
            for kind in ("content", "reasoning_content", "text"):
                add(f"{index} {kind}", said.get(kind))
            for call in said.get("tool_calls", ()):
                add(f"{index} name", call["function"].get("name"))
                add(f"{index} arguments", call["function"]["arguments"])
            add(f"{index} end", choice["finish_reason"])
        add("native", each.get("content"))
        add("tokens", "".join(f"{token} " for token in each.get("tokens", ())))
        for kind, value in each.get("delta", {}).items():
            add(f"{each['type']} {each.get('index')} {kind}", value if kind != "type" else "")
        add("events", f"{each['type']} " if each.get("type", "").endswith("stop") else "")
    out["done"] = str(raw.count(b"[DONE]"))
    return out


async def test_what_breaks_silence_counts_for_nothing(kept: KeptLogs, streams: Streams) -> None:
    kept.says = lambda _request: answer("Hi")
    _, whole = await streams.post("/v1/completions", {"prompt": "Hello", "stream": True})
    _, found = await streams.lookup({"conversation_ids": ["talk"]})
    assert found[0]["total_bytes"] == len(whole)
