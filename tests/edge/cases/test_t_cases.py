"""Streaming text: reported inputs, from a request of each API family to the engine and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.edge.cases.conftest import Serve
from tests.edge.cases.families import both, post, send, stream
from tests.edge.cases.family import Family
from tests.edge.cases.said import Ask, put
from tests.edge.cases.table import each
from tests.edge.wire import parse_sse

UNICODE = "ok 😺 漢字 é"
FRAMES = "data: x\r\u2028\u2029\x85y\n\nid: 1\nevent: z"
FAIL_AFTER = 10
LETTERS = "0123456789abcdef"
WITH_CODE = ("chat", "text", "native")  # whose errors within a stream have the status


@each("T01", "T02", "T03")
@pytest.mark.parametrize(
    ("said", "stop", "text"),
    [
        pytest.param("alpha beta gamma delta", "beta gamma", "alpha ", id="T01"),
        pytest.param("why?\nbecause", "\n", "why?", id="T02"),
        pytest.param("a be beta gamm", "beta gamma", "a be beta gamm", id="T03"),
    ],
)
async def test_stop_strings(serve: Serve, family: Family, said: str, stop: str, text: str) -> None:
    """T01, T02, T03: nothing of a stop string is said, and nothing else is held back.

    Of tokens of a byte; of longer ones where `LONGER_TOKENS` says.
    """
    serve()
    reply = await both(family, Ask(said, stop=[stop]))
    assert (reply.text, reply.end) == (text, "stop")
    assert reply.stop in (None, stop)
    if family.name in ("messages", "native"):
        assert (reply.stop is None) == (text == said)


@each("T01", "T02", "T03")
async def test_stop_strings_within_the_prompt_stop_nothing(serve: Serve, family: Family) -> None:
    """T01, T02, T03: only what is said is looked at."""
    serve("all of it")
    assert (await both(family, Ask("stop here", stop=["stop"]))).text == "all of it"


@each("T05")
async def test_characters_of_several_tokens(serve: Serve, family: Family) -> None:
    """T05: a character comes whole, though each of its bytes is a token."""
    serve()
    assert (await both(family, Ask(UNICODE))).text == UNICODE
    told = await stream(family, family.body(Ask(UNICODE), stream=True))
    assert told.text == UNICODE
    assert "\ufffd" not in str(told.data)


@each("T06")
async def test_bytes_that_are_no_character(serve: Serve, family: Family) -> None:
    """T06: each is one replacement character, and what follows flows on."""
    serve("\udcf0 then text \udce6\udcbc")
    assert (await both(family, Ask())).text == "\ufffd then text \ufffd"


@each("T08")
async def test_text_that_looks_like_a_frame(serve: Serve, family: Family) -> None:
    """T08: it is text, and every event has one line of data."""
    serve()
    assert (await both(family, Ask(FRAMES))).text == FRAMES


@each("T10")
async def test_usage_of_a_stream(serve: Serve, family: Family) -> None:
    """T10: it is told once, with the end, and is that of the whole answer."""
    serve()
    reply = await both(family, Ask("hello"))
    assert reply.completion_tokens == len("hello")
    assert reply.prompt_tokens >= len("hello")
    told = await stream(family, family.body(Ask("hello"), stream=True))
    assert sum(_counts(event) for event in told.data) == 1


def _counts(event: Any) -> bool:
    """Whether an event tells how many tokens a whole answer has."""
    if event.get("type") in ("message_start", "response.created", "response.in_progress"):
        return False
    response = event.get("response")
    usage = (response if isinstance(response, dict) else event).get("usage") or {}
    ends = bool(event.get("stop")) or "eval_count" in event
    return ends or any(usage.get(name) for name in ("completion_tokens", "output_tokens"))


@each("T10", only=("chat", "text"))
async def test_usage_only_where_it_is_asked_for(serve: Serve, family: Family) -> None:
    """T10: with include_usage in a last chunk without choices, else there is no such chunk."""
    serve()
    body = family.body(Ask("hello"), stream=True)
    *chunks, last = (await stream(family, body)).data
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 5)
    assert all(len(chunk["choices"]) == 1 and chunk.get("usage") is None for chunk in chunks)
    for options in ({"include_usage": False}, {}, None):
        chunks = await _chunks(family, {**body, "stream_options": options})
        assert all(len(chunk["choices"]) == 1 for chunk in chunks)
        num_told = sum(chunk.get("usage") is not None for chunk in chunks)
        assert num_told == (family.name == "text")  # there as llama-server has it


async def _chunks(family: Family, body: Any) -> list[Any]:
    response = await post(family.path, json.dumps(body).encode())
    return parse_sse(b"".join([part async for part in response.streaming_content])).data


@each("T11")
async def test_a_failure_in_the_middle(serve: Serve, family: Family) -> None:
    """T11: what was said stays, an error follows, and the stream's end is that of no whole one."""
    serve(fail_after=FAIL_AFTER)
    body = family.body(Ask(LETTERS), stream=True)
    told = await stream(family, body)
    assert (told.text, told.reply) == (LETTERS[:FAIL_AFTER], None)
    assert told.error is not None
    assert told.error.message
    assert LETTERS not in told.error.message
    assert told.error.code == (500 if family.name in WITH_CODE else None)
    put(body, "stream", False)
    status, refusal = await send(family.path, body)
    assert (status, family.refusal(refusal).message) == (500, told.error.message)
