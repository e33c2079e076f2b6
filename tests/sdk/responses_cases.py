"""OpenAI's clients for Python and Node against the Responses API; the mock engine echoes the last
message."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx2 as httpx
import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.sdk.opened import opened
from tests.stack import ROOT, Stack

NODE_SCRIPT = Path(__file__).with_name("responses.mjs")
NODE_S = 60.0
CLOCK: Any = {
    "type": "function",
    "name": "clock",
    "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
    "strict": True,
}
CALLS = '<tool_call>\n{"name": "clock", "arguments": {}}\n</tool_call>'


class Place(BaseModel):
    """A form that an answer has to have."""

    city: str


@pytest.fixture(scope="module")
def responses(stack: Stack, key: str) -> Any:
    """The client's side of the API."""
    url = f"{stack.base_url}/v1"
    return opened(OpenAI(base_url=url, api_key=key, max_retries=0, timeout=30)).responses


def test_responses_whole_and_streamed(responses: Any) -> None:
    made = responses.create(model="default", input="hello 😺", instructions="Be brief.")
    assert (made.status, made.output_text) == ("completed", "hello 😺")
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens
    events = list(responses.create(model="default", input="hello 😺", stream=True))
    assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[-1].response.output_text == "hello 😺"


def test_responses_accumulated_by_the_client(responses: Any) -> None:
    with responses.stream(model="default", input="hello") as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == "hello"
    assert responses.retrieve(final.id).output_text == "hello"


def test_responses_taken_up_again(responses: Any) -> None:
    told = list(responses.create(model="default", input="hello", stream=True))
    response_id = told[0].response.id
    for after in (0, 4, len(told) - 2):
        rest = list(responses.retrieve(response_id, stream=True, starting_after=after))
        assert rest == told[after + 1 :]
    with responses.stream(response_id=response_id, starting_after=4) as stream:
        assert stream.get_final_response().output_text == "hello"


@pytest.mark.parametrize(
    ("said", "stop", "text"),
    [
        ("alpha beta gamma delta", ["beta gamma"], "alpha "),
        ("why?\nbecause", ["\n"], "why?"),
        ("a be beta gamm", ["beta gamma"], "a be beta gamm"),
    ],
)
def test_t01_t02_t03_responses_stop(responses: Any, said: str, stop: Any, text: str) -> None:
    asked = {"model": "default", "input": said, "extra_body": {"stop": stop}}
    assert responses.create(**asked).output_text == text
    events = list(responses.create(**asked, stream=True))
    told = [e.delta for e in events if e.type == "response.output_text.delta"]
    assert "".join(told) == text
    assert events[-1].response.status == "completed"


@pytest.mark.parametrize("said", ["ok 😺 漢字 é", "data: x\r\u2028\u2029\x85y\n\nid: 1"])
def test_t05_t08_responses_say_any_text(responses: Any, said: str) -> None:
    events = list(responses.create(model="default", input=said, stream=True))
    deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
    assert "".join(deltas) == events[-1].response.output_text == said
    assert not any("\ufffd" in delta for delta in deltas)


def test_p07_responses_have_lengths(responses: Any) -> None:
    for most, text in ((0, ""), (3, "hel")):
        made = responses.create(model="default", input="hello", max_output_tokens=most)
        assert (made.output_text, made.status) == (text, "incomplete")
        assert made.incomplete_details.reason == "max_output_tokens"
    made = responses.create(model="default", input="hello", max_output_tokens=10**9)
    assert (made.output_text, made.status) == ("hello", "completed")


def test_p13_p14_responses_of_raw_bodies(stack: Stack, key: str) -> None:
    url = f"{stack.base_url}/v1/responses"
    body = {"input": "hello"}
    for headers in ({"Authorization": f"bearer   {key}"}, {"X-Api-Key": key}):
        assert httpx.post(url, json=body, headers=headers, timeout=30).status_code == 200
    for headers in ({}, {"X-Api-Key": "wrong"}, {"Authorization": "Bearer w", "X-Api-Key": key}):
        refused = httpx.post(url, json=body, headers=headers, timeout=30)
        assert refused.status_code == 401
        assert refused.json()["error"]["type"] == "authentication_error"
    headers = {"X-Api-Key": key}
    deep = b'{"input": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
    large = b'{"input": "' + b"x" * 11_000_000 + b'"}'
    for data, status in ((b"{", 400), (deep, 400), (large, 413), (b'{"input": null}', 400)):
        assert httpx.post(url, content=data, headers=headers, timeout=30).status_code == status


def test_s05_s06_responses_in_forms_that_can_not_be_kept(responses: Any) -> None:
    for keyword, value in (("pattern", "(?=a)b"), ("uniqueItems", True), ("$ref", "#/absent")):
        schema = {"type": "object", "properties": {"a": {keyword: value}}}
        form: Any = {"type": "json_schema", "name": "n", "schema": schema}
        with pytest.raises(openai.BadRequestError) as caught:
            responses.create(model="default", input="x", text={"format": form})
        assert caught.value.param == f"text.format.schema.properties.a.{keyword}"


def test_responses_in_a_form(responses: Any) -> None:
    parsed = responses.parse(model="default", input='{"city": "Bern"}', text_format=Place)
    assert isinstance(parsed.output_parsed, Place)


def test_s01_s03_responses_with_tools(responses: Any) -> None:
    made = responses.create(
        model="default", input=CALLS, tools=[CLOCK, {"type": "web_search"}], temperature=0
    )
    (call,) = [item for item in made.output if item.type == "function_call"]
    assert (call.name, call.arguments, call.status) == ("clock", "{}", "completed")
    assert made.warnings == ["tools[1]: web_search isn't run by this server and was left out"]
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "noon"}
    last = responses.create(
        model="default", input=[output], previous_response_id=made.id, tools=[CLOCK]
    )
    assert "noon" in last.output_text
    forced = responses.create(
        model="default",
        input="Hello, how are you today?",
        tools=[CLOCK],
        tool_choice="required",
        temperature=0,
    )
    assert {item.type for item in forced.output} == {"function_call"}


def test_responses_gone_on_from(responses: Any) -> None:
    first = responses.create(model="default", input="one", metadata={"a": "b"})
    second = responses.create(model="default", input="two", previous_response_id=first.id)
    assert second.usage.input_tokens > first.usage.input_tokens
    items = list(responses.input_items.list(second.id, order="asc", limit=2))
    assert [item.type for item in items] == ["message"] * 3
    assert items[0].content[0].text == "one"
    counted = responses.input_tokens.count(model="default", input="two")
    alone = responses.create(model="default", input="two", store=False)
    assert counted.input_tokens == alone.usage.input_tokens


def test_responses_cancelled_and_deleted(responses: Any) -> None:
    made = responses.create(model="default", input="x" * 20, background=True)
    assert made.status == "queued"
    ended = responses.cancel(made.id)
    assert ended.status in ("cancelled", "completed")
    responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        responses.retrieve(made.id)
    with pytest.raises(openai.BadRequestError) as caught:
        responses.create(model="default", input="x", previous_response_id=made.id)
    assert caught.value.param == "previous_response_id"


def test_responses_refused(responses: Any) -> None:
    for is_stream in (False, True):
        with pytest.raises(openai.BadRequestError) as caught:
            responses.create(model="default", input="x" * 300_000, stream=is_stream)
        body: Any = caught.value.body
        assert body["type"] == "exceed_context_size_error"
    with pytest.raises(openai.NotFoundError):
        responses.create(model="absent", input="x")


def test_responses_from_node(stack: Stack, key: str) -> None:
    done = subprocess.run(
        ["node", str(NODE_SCRIPT), f"{stack.base_url}/v1", key],
        cwd=ROOT / "frontend",
        capture_output=True,
        text=True,
        timeout=NODE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["whole"] == told["streamed"] == told["final"] == told["retrieved"] == "hello 😺"
    assert told["types"][0] == "response.created"
    assert told["types"][-1] == "response.completed"
    assert told["resumed"] == told["types"][4:]
    assert told["next"] == "two"
    assert told["deleted"] == 404
