"""Every API family is asked for the same, and its stream is read to the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.bench import families_report
from tests.bench.__main__ import DOCS
from tests.bench.families import PACES, FamiliesRun
from tests.bench.figures import BenchError
from tests.bench.forms import ANTHROPIC, CHAT, COMPLETIONS, FORMS, NATIVE, OLLAMA, RESPONSES, Form
from tests.bench.http_target import HttpTarget
from tests.bench.making import figures, make_round
from tests.bench.rounds import Key, engine_spec
from tests.bench.sides import ENGINE
from tests.generated import replaced

CHATS = (("user", "hello"),)
SSE = "data: {}\n\n"
# What each family's stream looks like: two texts, 7 tokens of a prompt, 2 of the answer.
STREAMS: dict[str, list[Any]] = {
    CHAT.name: [
        {"choices": [{"delta": {"role": "assistant", "content": None}}]},
        {"choices": [{"delta": {"content": "Hel"}}], "usage": None},
        {"choices": [{"delta": {"content": "lo"}}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    ],
    COMPLETIONS.name: [
        {"choices": [{"text": "Hel"}]},
        {"choices": [{"text": "lo"}]},
        {"choices": [{"text": ""}], "usage": {"prompt_tokens": 7, "completion_tokens": 2}},
    ],
    RESPONSES.name: [
        {"type": "response.created", "response": {"usage": None, "error": None}},
        {"type": "response.output_text.delta", "delta": "Hel"},
        {"type": "response.output_text.delta", "delta": "lo"},
        {
            "type": "response.incomplete",
            "response": {"usage": {"input_tokens": 7, "output_tokens": 2}},
        },
    ],
    ANTHROPIC.name: [
        {
            "type": "message_start",
            "message": {
                "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 0}
            },
        },
        {"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "lo"}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ],
    OLLAMA.name: [
        {"message": {"content": "Hel"}, "done": False},
        {"message": {"content": "lo"}, "done": False},
        {"message": {"content": ""}, "done": True, "prompt_eval_count": 7, "eval_count": 2},
    ],
    NATIVE.name: [
        {"content": "Hel", "stop": False, "tokens_evaluated": 7, "tokens_predicted": 1},
        {"content": "lo", "stop": False, "tokens_evaluated": 7, "tokens_predicted": 2},
        {"content": "", "stop": True, "tokens_evaluated": 7, "tokens_predicted": 2},
    ],
}


@asynccontextmanager
async def server(events: list[Any], form: Form) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """Something that streams `events` to everybody: its address, and the bodies it was sent."""
    asked: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
        body = json.loads(await reader.readexactly(length))
        asked.append({"path": head.split()[1], **body})
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        for event in events:
            text = json.dumps(event)
            writer.write((f"{text}\n" if form.has_lines else SSE.format(text)).encode())
        if not form.has_lines:
            writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        port = listener.sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}", asked


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_a_stream_of_each_family_is_read_whole(form: Form) -> None:
    said: list[None] = []
    async with server(STREAMS[form.name], form) as (url, asked):
        target = HttpTarget(url, "key", form=form, render=lambda chat: f"<{chat[0][1]}>")
        answer = await target.ask(CHATS, 2, lambda: said.append(None))
    assert (answer.text, answer.num_tokens, answer.prompt_tokens) == ("Hello", 2, 7)
    assert len(said) == len(answer.times) == target.num_deltas == 2
    (body,) = asked
    assert body["path"] == form.path
    assert ("<hello>" if form.is_raw else "hello") in json.dumps(body)
    assert 2 in [*body.values(), *body.get("options", {}).values()]


@pytest.mark.parametrize(
    "event",
    [
        {"error": {"message": "no"}},
        {"type": "response.failed", "response": {"error": {"message": "no"}}},
    ],
)
async def test_an_error_in_a_stream_is_no_answer(event: dict[str, Any]) -> None:
    async with server([event], RESPONSES) as (url, _):
        with pytest.raises(BenchError, match="no"):
            await HttpTarget(url, form=RESPONSES).ask(CHATS, 2)


# --- the report


def made(streams: int, ours: Callable[[int], float], deltas: float = 1.0) -> FamiliesRun:
    """Three rounds; to the engine's times something is added with so many streams."""
    plan = PACES[0].plan(rounds=2, seed="s", threads=1)
    run = FamiliesRun(PACES[0].title, plan, engine_spec(plan))
    for number in range(3):
        cells = {}
        for concurrency in plan.concurrency:
            cells[Key("story", concurrency, ENGINE)] = figures(ttft50=10, tpot=1, e2e50=50)
            for form in FORMS:
                added = ours(number) if concurrency == streams else 0.0
                key = Key("story", concurrency, form.name)
                times = {"ttft50": 10 + added, "tpot": 1 + added / 10, "e2e50": 50 + added}
                cells[key] = figures(tps=400, deltas=deltas, **times)
                run.web_ms.setdefault(key, []).append(0.1 * number)
        run.rounds.append(make_round(number, cells))
    return run


def test_what_is_added_is_of_one_round() -> None:
    text = families_report.render([made(8, lambda number: 50.0 * number)])
    row = next(line for line in text.splitlines() if line.startswith("| 8 | ollama chat |"))
    assert row == (
        "| 8 | ollama chat | 400 | 60.00 | 50.00 (0.00..100.00) | 6.00 | 5.00 (0.00..10.00) "
        "| 0.10 | 0.50 (0.33..1.00) |"
    )
    assert text.count("| 1 |") == text.count("| 8 |") == 1 + len(FORMS)
    assert "With the mock engine" in text
    assert "Provisional: 2 of the 3 rounds" in text


def test_tokens_that_came_together_have_no_time_each() -> None:
    text = families_report.render([made(8, lambda number: 50.0, deltas=0.1)])
    assert text.count("| merged |  |") == 2 * len(FORMS)


def test_the_document_has_the_markers() -> None:
    assert "new" in replaced(DOCS.read_text("utf-8"), families_report.COMMAND, "new")
