"""Whatever is sent: 4xx that names the field, never 500, and nothing is changed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from conversations.models import Conversation, Message, Turn
from conversations.parts import MAX_PARTS, MAX_TEXT_CHARS
from llamaweb.app_schema import app_schema
from tests.app_api.cases import CASES, QUERIES
from tests.app_api.world import Person, World

pytestmark = pytest.mark.django_db

DOCUMENT = app_schema()
WRONG: list[Any] = [{"a": 1}, [[]], 5, 1.5, True, "x", 10**30]
DEEP = b'{"parts":' * 2000
RAW = [
    b"[]",
    b"{",
    b'"x"',
    b"null",
    b"\xff\xfe",
    b'{"title": NaN}',
    DEEP,
    b"[" * 100_000,
    b'{"a":1}' * 2,
]


def body_schema(name: str) -> dict[str, Any] | None:
    """The schema of a route's body."""
    method, path = name.split(" ")
    operation = DOCUMENT["paths"].get(path, {}).get(method.lower(), {})
    if "requestBody" not in operation:
        return None
    return resolve(operation["requestBody"]["content"]["application/json"]["schema"])


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    for choice in schema.get("anyOf", []):
        if choice.get("type") != "null":
            return {**resolve(choice), "nullable": True}
    if "$ref" in schema:
        found: dict[str, Any] = DOCUMENT["components"]["schemas"][schema["$ref"].split("/")[-1]]
        return found
    if "allOf" in schema:
        return resolve(schema["allOf"][0])
    return schema


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value may be right: these are left out."""
    kind = schema.get("type")
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":  # "x" isn't one; 1, 0 and "true" are
        return isinstance(value, bool)
    return {"array": list, "object": dict, "integer": int}.get(kind or "", object) is type(value)


def bad_values(schema: dict[str, Any]) -> Iterator[Any]:
    for value in WRONG:
        if not fits(value, schema):
            yield value
    if not schema.get("nullable"):
        yield None
    if "maxLength" in schema:
        yield "x" * (schema["maxLength"] + 1)
    if schema.get("minLength"):
        yield ""
    if "maxItems" in schema:
        yield [{"text": "x"}] * (schema["maxItems"] + 1)
    if schema.get("minItems"):
        yield []
    if "pattern" in schema:
        yield from ("a b", "a\0", "ä", "../a", "a\n")
    if "enum" in schema:
        yield "no such choice"


BODIES = [name for name in CASES if body_schema(name)]


def counts() -> list[int]:
    return [model.objects.count() for model in (Conversation, Message, Turn)]


def refused(response: Any, what: object) -> dict[str, Any]:
    assert 400 <= response.status_code < 500, (what, response.content)
    error: dict[str, Any] = response.json()["error"]
    assert error["message"], what
    assert len(response.content) < 2000, what
    return error


@pytest.mark.parametrize("name", BODIES)
def test_each_field(name: str, world: World) -> None:
    person, case, schema = Person(world.alice), CASES[name], body_schema(name)
    method, template = name.split(" ")
    address, before = case.url(template, world), counts()
    assert schema is not None
    good = case.body(world) or {}
    for field, raw in schema["properties"].items():
        for value in bad_values(resolve(raw)):
            body = {**copy.deepcopy(good), field: value}
            error = refused(person.ask(method, address, body), (field, str(value)[:50]))
            assert (error["param"] or "").startswith(field), (field, str(value)[:50], error)
    for field in schema.get("required", []):
        body = {key: value for key, value in good.items() if key != field}
        assert refused(person.ask(method, address, body), field)["param"] == field
    error = refused(person.ask(method, address, {**good, "nonsense": 1}), "unknown")
    assert error["param"] == "nonsense"
    assert counts() == before


@pytest.mark.parametrize("name", BODIES)
def test_bodies_that_are_none(name: str, world: World) -> None:
    person, (method, template) = Person(world.alice), name.split(" ")
    address, before = CASES[name].url(template, world), counts()
    for raw in RAW:
        refused(person.ask(method, address, raw), raw[:20])
    assert counts() == before


@pytest.mark.parametrize("name", [name for name in CASES if "{" in name])
def test_ids_that_are_none(name: str, world: World) -> None:
    person, (method, template) = Person(world.alice), name.split(" ")
    start, _, rest = template.partition("{")
    end = rest.partition("}")[2] + QUERIES.get(name, "")
    bad = ["%00", "a%00b", "x" * 5000, "%F0%9F%98%BA", "..%2F..", "9" * 60, "-1", "a%20b", "%27"]
    for id_ in bad:
        response = person.ask(method, f"{start}{id_}{end}", CASES[name].body(world))
        refused(response, id_)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=x", "limit"),
        ("limit=" + "9" * 40, "limit"),
        ("before=x", "before"),
        ("before=%00", "before"),
        ("before=1-" + "x" * 500, "before"),
        ("before=" + "9" * 17 + "-a", "before"),
    ],
)
def test_the_lists_query(query: str, param: str, world: World) -> None:
    response = Person(world.alice).ask("GET", f"conversations?{query}")
    assert refused(response, query)["param"] == param


@pytest.mark.parametrize("query", ["", "since=x", "since=-1", "since=" + "9" * 40, "since=1.5"])
def test_the_changes_query(query: str, world: World) -> None:
    response = Person(world.alice).ask("GET", f"conversations/{world.chat.id}/changes?{query}")
    assert refused(response, query)["param"] == "since"


def test_texts_have_bounds(world: World) -> None:
    person = Person(world.alice)
    for parts, param in [
        ([{"text": "x" * (MAX_TEXT_CHARS + 1)}], "parts[0].text"),
        ([{"text": "x" * MAX_TEXT_CHARS}, {"text": "y"}], "parts[1].text"),
        ([{"text": "a\0b"}], "parts[0].text"),
        ([{"text": " \n "}], "parts"),
        ([{"text": "x", "type": "tool_call"}], "parts[0].type"),
        ([{"text": "x", "size": 1}], "parts[0].size"),
        ([{"text": "x"}] * (MAX_PARTS + 1), "parts"),
    ]:
        error = refused(person.ask("POST", "turns", {"parts": parts}), param)
        assert error["param"] == param
    assert (
        str(MAX_TEXT_CHARS)
        in refused(
            person.ask("POST", "turns", {"parts": [{"text": "x" * (MAX_TEXT_CHARS + 1)}]}), ""
        )["message"]
    )


def test_half_an_emoji_is_no_mistake(world: World) -> None:
    raw = b'{"parts": [{"text": "cut \\ud83d"}]}'
    assert Person(world.alice).ask("POST", "turns", raw).status_code == 201


def test_a_body_that_is_too_large(world: World, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    response = Person(world.alice).ask("POST", "turns", b"{" + b" " * 2000)
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "too_long"
