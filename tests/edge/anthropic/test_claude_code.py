"""What Claude Code sends, and what becomes of it: its notes in the system text, its asides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from inference.protocol.requests import ChatPrompt, Message
from tests.edge.anthropic.wire import HELLO, Client, fields
from tests.edge.events import answer
from tests.edge.wire import CHAT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
AGENT = "claude-cli/2.1.40 (external, cli)"
TOOLS = [{"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}]


def system(digest: str) -> list[dict[str, Any]]:
    """The system blocks of one of its requests, no two of which have the same first line."""
    note = (
        f"x-anthropic-billing-header: cc_version=2.1.40.{digest}; cc_entrypoint=cli; cch={digest};"
    )
    cached = {"type": "ephemeral"}
    return [
        {"type": "text", "text": note},
        {"type": "text", "text": "You are Claude Code.", "cache_control": cached},
        {
            "type": "text",
            "text": "Be careful.\nx-anthropic-billing-header is a name.",
            "cache_control": cached,
        },
    ]


def conversation(digest: str) -> dict[str, Any]:
    """A request in the middle of its work, with all it sends along."""
    return fields(
        model="default",
        max_tokens=32_000,
        temperature=1,
        system=system(digest),
        tools=TOOLS,
        thinking={"type": "enabled", "budget_tokens": 31_999},
        metadata={"user_id": "user_x_account__session_y"},
        context_management={"edits": []},
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "<system-reminder>"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "I see."}]},
            {"role": "system", "content": "The user opened a.py."},
            {"role": "user", "content": "Go on."},
        ],
    )


async def prompt_of(fake: FakeInference, client: Client, body: dict[str, Any]) -> ChatPrompt:
    response = await client.response(body, "/v1/messages?beta=true", **{"User-Agent": AGENT})
    assert response.status_code == 200, response.content
    prompt = fake.submitted[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


async def test_its_changing_note_is_no_part_of_the_prompt(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    prompt = await prompt_of(fake, client, conversation("a1b2c"))
    assert prompt == await prompt_of(fake, client, conversation("0ffff"))
    assert prompt.messages[0] == Message(
        "system",
        "You are Claude Code.\n\nBe careful.\nx-anthropic-billing-header is a name.",
    )
    assert [message.role for message in prompt.messages[1:]] == [
        "user",
        "assistant",
        "system",
        "user",
    ]


async def test_a_note_alone_is_no_system_text(says: Says, client: Client) -> None:
    fake = says(*answer("x"))
    prompt = await prompt_of(fake, client, fields(system=system("a1b2c")[:1]))
    assert prompt.messages == (Message("user", "Hello"),)


async def test_through_a_proxy_to_the_other_api_it_is_gone_too(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    for digest in ("a1b2c", "0ffff"):
        text = "\n".join(block["text"] for block in system(digest))
        status, _ = await wire.post(CHAT, messages=[{"role": "system", "content": text}, *HELLO])
        assert status == 200
    first, second = (request.prompt for request in fake.submitted)
    assert first == second
    assert isinstance(first, ChatPrompt)
    assert first.messages[0].content.startswith("You are Claude Code.")


TITLE = {"max_tokens": 512, "system": system("a1b2c"), "temperature": 0}
FORM = {"format": {"type": "json_schema", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("body", "agent", "lane"),
    [
        (TITLE, AGENT, "background"),
        ({"max_tokens": 32_000, "output_config": FORM}, AGENT, "background"),
        ({**TITLE, "thinking": {"type": "disabled"}}, AGENT, "background"),
        ({"max_tokens": 32_000, "model": "claude-haiku-4-5"}, "x", "background"),
        ({"max_tokens": 1}, AGENT, "background"),
        (TITLE, "Anthropic/Python 2.14.0", "interactive"),
        ({**TITLE, "max_tokens": 1025}, AGENT, "interactive"),
        ({**TITLE, "tools": TOOLS}, AGENT, "interactive"),
        ({**TITLE, "tools": TOOLS, "model": "claude-haiku-4-5"}, AGENT, "interactive"),
        ({**TITLE, "thinking": {"type": "adaptive"}}, AGENT, "interactive"),
    ],
)
async def test_asides_wait_for_chats(
    says: Says,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    body: dict[str, Any],
    agent: str,
    lane: str,
) -> None:
    fake = says(*answer("x"))
    resolve = fake.model_resolve

    async def resolved(user_id: int, name: str | None, only: Any = ()) -> Any:
        return await resolve("tiny")

    monkeypatch.setattr("inference.api.model_resolve_for", resolved)
    response = await client.response(fields(**body), **{"User-Agent": agent})
    assert response.status_code == 200, response.content
    assert fake.submitted[-1].lane == lane
