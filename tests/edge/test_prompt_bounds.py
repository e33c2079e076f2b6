"""Prompts that are refused before anything is stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inference import api
from inference.api import EngineSummary
from inference.edge.prompt_bounds import MAX_REQUEST_CHARS, SMALL_PROMPT_TOKENS
from tests.edge.events import answer
from tests.edge.wire import CHAT, TEXT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
CONTEXT = 8192
PIECE = 128  # characters a token may have
HOPELESS = "x" * (CONTEXT * PIECE)
FITTING = HOPELESS[1:]


def chat(text: str) -> dict[str, Any]:
    """Two messages that have `text` together."""
    half = len(text) // 2
    return {
        "messages": [
            {"role": "user", "content": text[:half]},
            {"role": "user", "content": text[half:]},
        ]
    }


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "given"),
    [
        (TEXT, {"prompt": HOPELESS}),
        (TEXT, {"prompt": ["short", HOPELESS]}),
        (TEXT, {"prompt": [7] * CONTEXT}),
        (CHAT, chat(HOPELESS)),
    ],
)
async def test_what_no_vocabulary_makes_fit_is_refused(
    says: Says, wire: Wire, path: str, given: dict[str, Any], stream: bool
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(path, **given, stream=stream)
    assert status == 400, body
    error = body["error"]
    assert error["type"] == "exceed_context_size_error"
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (CONTEXT, CONTEXT)
    assert "at least 8192 tokens" in error["message"]
    assert not fake.submitted


@pytest.mark.parametrize(
    ("path", "given"),
    [
        (TEXT, {"prompt": FITTING}),
        (TEXT, {"prompt": [7] * (CONTEXT - 1)}),
        (CHAT, chat(FITTING)),
        # a template may leave earlier reasoning out
        (CHAT, {"messages": [{"role": "assistant", "content": "", "reasoning_content": HOPELESS}]}),
    ],
)
async def test_what_may_fit_is_the_engines_to_decide(
    says: Says, wire: Wire, path: str, given: dict[str, Any]
) -> None:
    fake = says(*answer("x"))
    assert (await wire.post(path, **given))[0] == 200
    assert len(fake.submitted) == 1


async def test_without_an_engine_the_context_is_not_guessed(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    fake.max_context = 0
    assert (await wire.post(TEXT, prompt=HOPELESS))[0] == 200


async def test_a_small_prompt_asks_nobody(
    says: Says, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(*answer("x"))
    asked: list[str | None] = []

    async def engine_status(name: str | None = None) -> EngineSummary:
        asked.append(name)
        return EngineSummary(True, "", "tiny", CONTEXT)

    monkeypatch.setattr(api, "engine_status", engine_status)
    assert (await wire.post(TEXT, prompt="x" * SMALL_PROMPT_TOKENS * PIECE))[0] == 200
    assert asked == []
    assert (await wire.post(TEXT, prompt="x" * (SMALL_PROMPT_TOKENS + 1) * PIECE))[0] == 200
    assert asked == ["tiny"]


@pytest.mark.parametrize(
    ("path", "given", "num_answers", "param"),
    [
        (TEXT, {"prompt": "x" * (MAX_REQUEST_CHARS // 4 + 1), "n": 4}, 4, "prompt"),
        (TEXT, {"prompt": ["x" * (MAX_REQUEST_CHARS // 64 + 1)] * 64}, 1, "prompt"),
        (TEXT, {"prompt": [[7] * 10_000] * 64}, 1, "prompt"),
        (CHAT, {**chat("x" * (MAX_REQUEST_CHARS // 2 + 1)), "n": 2}, 2, "messages"),
        (
            CHAT,
            {"messages": [{"role": "user", "content": "", "name": "x" * (MAX_REQUEST_CHARS + 1)}]},
            1,
            "messages",
        ),
    ],
)
async def test_one_request_stores_so_much(
    says: Says, wire: Wire, path: str, given: dict[str, Any], num_answers: int, param: str
) -> None:
    """However many prompts and answers it has, and whatever the context is."""
    fake = says(*answer("x"))
    fake.max_context = 10**9
    status, body = await wire.post(path, **given)
    assert (status, body["error"]["param"]) == (400, param)
    assert str(MAX_REQUEST_CHARS) in body["error"]["message"]
    assert ("for each of" in body["error"]["message"]) == (num_answers > 1)
    assert not fake.submitted


async def test_the_greatest_request_is_served(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    fake.max_context = 10**9
    assert (await wire.post(TEXT, prompt="x" * (MAX_REQUEST_CHARS // 4), n=4))[0] == 200
    assert len(fake.submitted) == 4
