"""The main paths of each API family that writes, on the starter model: streamed and whole agree."""

from __future__ import annotations

import json
from collections.abc import Iterator

import jsonschema
import pytest

from tests.edge.cases.families import both, refused
from tests.edge.cases.family import Family
from tests.edge.cases.said import Ask, Tool
from tests.edge.cases.table import each
from tests.edge.conftest import as_alice, fake  # noqa: F401
from tests.fakes.inference_api import FakeInference
from tests.model.conftest import starter_spec
from tests.model.served import exact_worker, serve_by
from tests.worker.conftest import Bench

pytestmark = pytest.mark.model

CONTEXT = 1024
TALE = "Once upon a time, there was a"
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Rome", "Oslo"]}, "hot": {"type": "boolean"}},
    "required": ["city", "hot"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """A worker with the starter model."""
    with exact_worker(starter_spec().model_path, CONTEXT) as made:
        yield made


@pytest.fixture
def served(bench: Bench, fake: FakeInference) -> FakeInference:  # noqa: F811
    """A server of that worker."""
    serve_by(bench, fake, CONTEXT)
    return fake


@each("T01", "T10")
async def test_ok_length_and_stop(served: FakeInference, family: Family) -> None:
    reply = await both(family, Ask(TALE, length=12))
    assert (reply.end, reply.completion_tokens) == ("length", 12)
    stop = reply.text[6:9]
    cut = await both(family, Ask(TALE, length=12, stop=[stop]))
    assert (cut.text, cut.end) == (reply.text.partition(stop)[0], "stop")


@each("P07")
async def test_nothing_is_written(served: FakeInference, family: Family) -> None:
    reply = await both(family, Ask(TALE, length=0))
    assert (reply.text, reply.end, reply.completion_tokens) == ("", "length", 0)


@each("S06")
async def test_a_form(served: FakeInference, family: Family) -> None:
    reply = await both(family, Ask(TALE, schema=CITY, length=60))
    assert reply.end == "stop"
    jsonschema.validate(json.loads(reply.text), CITY)


@each("S01")
async def test_a_forced_call(served: FakeInference, family: Family) -> None:
    """Of several that it makes the last may be cut."""
    ask = Ask(TALE, tools=[Tool("weather", CITY, strict=True)], choice="weather", length=60)
    reply = await both(family, ask)
    assert (reply.text, reply.end in ("tool_calls", "length")) == ("", True)
    name, arguments = reply.calls[0]
    assert name == "weather"
    jsonschema.validate(json.loads(arguments), CITY)


@each("P01")
async def test_a_chat_of_several_turns(served: FakeInference, family: Family) -> None:
    roles = ("system", "user", "assistant", "system", "user")
    messages = [{"role": role, "content": f"Say {n}."} for n, role in enumerate(roles)]
    assert (await both(family, Ask(messages=messages, length=4))).text


@each("P11")
async def test_too_long(served: FakeInference, family: Family) -> None:
    refusal = await refused(family, family.body(Ask("word " * 2 * CONTEXT)))
    assert f"{CONTEXT} " in refusal.message


@each("S05")
async def test_a_client_error(served: FakeInference, family: Family) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}
    refusal = await refused(family, family.body(Ask(schema=schema)))
    assert refusal.param == f"{family.schema}.properties.a.pattern"
