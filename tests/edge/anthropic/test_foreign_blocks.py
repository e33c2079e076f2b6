"""What the official client may send back of what Anthropic's servers did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from anthropic.types.beta import BetaContentBlockParam, beta_tool_result_block_param
from pydantic import BaseModel

from inference.protocol.requests import ChatPrompt, Message
from tests.edge.anthropic.wire import Client
from tests.edge.events import answer
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
USER = {"role": "user", "content": "Hi"}
TEXT = {"type": "text", "text": "One"}
# Blocks that are read, or refused because they are no text.
READ = {"text", "thinking", "tool_use", "tool_result", "document", "search_result"}
READ |= {"tool_reference", "compaction", "image", "container_upload"}


def kinds_of(union: Any) -> Iterator[str]:
    """The types of all blocks in a union of the client's."""
    for member in get_args(union):
        if get_origin(member) is not None:
            yield from kinds_of(member)
        elif isinstance(member, type):
            is_model = issubclass(member, BaseModel)
            hint = member.model_fields["type"].annotation if is_model else None
            yield from get_args(hint or get_type_hints(member)["type"])


IN_MESSAGES = sorted({*kinds_of(BetaContentBlockParam)} - READ)
IN_RESULTS = sorted({*kinds_of(beta_tool_result_block_param.Content)} - READ)


async def messages(says: Says, client: Client, *history: Any) -> tuple[Message, ...]:
    """The chat that `history` became."""
    fake = says(*answer("x"))
    status, told = await client.ask(messages=list(history))
    assert status == 200, told
    prompt = fake.submitted.pop().prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def test_the_client_has_such_blocks() -> None:
    assert {"fallback", "mcp_tool_listing", "tool_addition", "tool_removal"} <= {*IN_MESSAGES}
    assert IN_RESULTS == ["browser_state"]


@pytest.mark.parametrize("kind", IN_MESSAGES)
async def test_what_only_their_servers_read_is_passed_over(
    kind: str, says: Says, client: Client
) -> None:
    blocks = [{"type": kind}, TEXT]
    history = [USER, {"role": "assistant", "content": blocks}, {"role": "user", "content": blocks}]
    assert await messages(says, client, *history) == (
        Message("user", "Hi"),
        Message("assistant", "One"),
        Message("user", "One"),
    )


@pytest.mark.parametrize("kind", IN_RESULTS)
async def test_in_results_too(kind: str, says: Says, client: Client) -> None:
    use = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [TEXT, {"type": kind}]}
    history = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    assert (await messages(says, client, USER, *history))[-1] == Message(
        "tool", "One", tool_call_id="1"
    )


async def test_the_text_of_a_compaction_is_shown(says: Says, client: Client) -> None:
    summary = {"type": "compaction", "content": "They met.", "encrypted_content": "?"}
    failed = {"type": "compaction", "content": None}
    for block, text in ((summary, "They met.\n\nOne"), (failed, "One")):
        history = [USER, {"role": "assistant", "content": [block, TEXT]}, USER]
        assert (await messages(says, client, *history))[1] == Message("assistant", text)


async def test_a_system_message_that_only_changes_tools_is_none(says: Says, client: Client) -> None:
    change = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}
    history = [{"role": "system", "content": [change]}, USER]
    assert await messages(says, client, *history) == (Message("user", "Hi"),)
