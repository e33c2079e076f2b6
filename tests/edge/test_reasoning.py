"""How long a model may think, and ending it while it does: on the wire of a chat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from inference.protocol.requests import AnswerParams, ChatPrompt
from tests.edge.conftest import CALLER, be
from tests.edge.events import answer
from tests.edge.wire import CHAT, TEXT, Wire
from tests.fakes.inference_api import FakeInference

Says = Callable[..., FakeInference]
CONTROL = "/v1/chat/completions/control"


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, AnswerParams()),
        ({"reasoning_budget_tokens": -1}, AnswerParams()),
        ({"reasoning_budget_tokens": 0}, AnswerParams(reasoning_budget=0)),
        ({"thinking_budget_tokens": 7}, AnswerParams(reasoning_budget=7)),
        (
            {"reasoning_budget_tokens": 3, "thinking_budget_tokens": 7},
            AnswerParams(reasoning_budget=3),
        ),
        (
            {"reasoning_budget_tokens": 3, "reasoning_budget_message": "Stop \ud83d"},
            AnswerParams(reasoning_budget=3, reasoning_message="Stop \ufffd"),
        ),
        ({"reasoning_control": True}, AnswerParams(reasoning_control=True)),
        ({"reasoning_format": "none"}, AnswerParams(splits_reasoning=False)),
        ({"reasoning_format": "deepseek-legacy"}, AnswerParams()),
    ],
)
async def test_what_reaches_the_engine(
    says: Says, wire: Wire, given: dict[str, Any], asked: AnswerParams
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(CHAT, **given)
    assert status == 200, body
    assert fake.submitted[0].answer == asked


async def test_no_effort_is_told_to_the_template(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    assert (await wire.post(CHAT, reasoning_effort="none"))[0] == 200
    prompt = fake.submitted[0].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.template_kwargs_json == '{"enable_thinking": false}'


@pytest.mark.parametrize(
    ("path", "given", "param"),
    [
        (CHAT, {"reasoning_budget_tokens": -2}, "reasoning_budget_tokens"),
        (CHAT, {"reasoning_budget_tokens": "5"}, "reasoning_budget_tokens"),
        (CHAT, {"reasoning_budget_message": "x" * 1025}, "reasoning_budget_message"),
        (CHAT, {"reasoning_control": 1}, "reasoning_control"),
        (CHAT, {"reasoning_format": "loud"}, "reasoning_format"),
        (TEXT, {"reasoning_budget_tokens": 5}, "reasoning_budget_tokens"),
        (TEXT, {"thinking_budget_tokens": 0}, "thinking_budget_tokens"),
        (TEXT, {"reasoning_control": True}, "reasoning_control"),
    ],
)
async def test_what_is_refused_by_name(
    says: Says, wire: Wire, path: str, given: dict[str, Any], param: str
) -> None:
    fake = says(*answer("x"))
    status, body = await wire.post(path, **given)
    assert (status, body["error"]["param"]) == (400, param)
    assert not fake.submitted


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ({"response_format": {"type": "json_object"}}, "tool_choice"),
        ({"json_schema": {"type": "object"}}, "tool_choice"),
        ({"structured_outputs": {"regex": "a+"}}, "tool_choice"),
        ({"grammar": 'root ::= "a"'}, "grammar"),
    ],
)
async def test_a_forced_call_has_no_other_form(
    says: Says, wire: Wire, form: dict[str, Any], param: str
) -> None:
    says(*answer("x"))
    tool = {"type": "function", "function": {"name": "f"}}
    for choice in ("required", {"type": "function", "function": {"name": "f"}}):
        status, body = await wire.post(CHAT, tools=[tool], tool_choice=choice, **form)
        assert (status, body["error"]["param"]) == (400, param)


async def ordered(wire: Wire, reply_id: str) -> Any:
    response = await wire.client.post(
        CONTROL, data={"id": reply_id, "action": "reasoning_end"}, content_type="application/json"
    )
    assert response.status_code == 200
    return response.json()


async def test_an_order_to_end_the_reasoning(says: Says, wire: Wire) -> None:
    fake = says(*answer("x"))
    _, allowed = await wire.post(CHAT, reasoning_control=True)
    _, other = await wire.post(CHAT)
    assert await ordered(wire, allowed["id"]) == {"success": True}
    assert fake.reasoning_ended == [(allowed["id"], "user:7")]
    assert await ordered(wire, other["id"]) == {
        "success": False,
        "message": "reasoning control not enabled for this completion",
    }
    assert await ordered(wire, "chatcmpl-unknown") == {
        "success": False,
        "message": "no active completion for this id",
    }


async def test_a_key_ends_no_reasoning_of_a_model_that_it_is_not_for(
    says: Says, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(*answer("x"))
    _, allowed = await wire.post(CHAT, reasoning_control=True)
    for names, expected in ((("another",), False), (("another", "tiny"), True)):
        be(monkeypatch, replace(CALLER, model_names=frozenset(names)))
        told = await ordered(wire, allowed["id"])
        assert told["success"] is expected
        unknown = None if expected else "no active completion for this id"
        assert told.get("message") == unknown


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({}, "id"),
        ({"action": "reasoning_end"}, "id"),
        ({"id": "", "action": "reasoning_end"}, "id"),
        ({"id": 5, "action": "reasoning_end"}, "id"),
        ({"id": "x"}, "action"),
        ({"id": "x", "action": "stop"}, "action"),
    ],
)
async def test_orders_that_are_none(
    says: Says, wire: Wire, given: dict[str, Any], param: str
) -> None:
    says(*answer("x"))
    response = await wire.client.post(CONTROL, data=given, content_type="application/json")
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
