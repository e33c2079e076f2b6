"""Every route, asked by everybody: the owner, who it is shared with, strangers, the signed-out."""

from __future__ import annotations

from typing import Any

import pytest

from llamaweb.accounts.models import User
from tests.app_api.cases import CASES, QUERIES, operations
from tests.app_api.world import Person, World, key_of

pytestmark = pytest.mark.django_db


def ask(person: Person, name: str, world: World, **headers: str) -> Any:
    method, template = name.split(" ")
    case = CASES[name]
    address = case.url(template, world) + QUERIES.get(name, "")
    return person.ask(method, address, case.body(world), **headers)


def refused(response: Any, status: int, code: str) -> None:
    assert response.status_code == status, response.content
    error = response.json()["error"]
    assert error["code"] == code
    assert error["message"]
    assert "secret" not in response.content.decode()


ENDED = [name for name, case in CASES.items() if case.needs != "stream"]  # answer at once


def test_every_route_has_a_case() -> None:
    assert operations() == sorted(CASES)


@pytest.mark.parametrize("name", ENDED)
def test_the_owner_may(name: str, world: World) -> None:
    response = ask(Person(world.alice), name, world)
    assert response.status_code == CASES[name].ok, response.content


@pytest.mark.parametrize("name", ENDED)
@pytest.mark.parametrize("can_write", [False, True])
def test_who_it_is_shared_with(name: str, can_write: bool, world: World) -> None:
    world.share(can_write)
    case = CASES[name]
    response = ask(Person(world.bob), name, world)
    allowed = {"self", "read", *(["write"] if can_write else [])}
    if case.needs in allowed:
        assert response.status_code == case.ok, response.content
    elif case.needs == "private":
        refused(response, 404, "not_found")
    else:
        refused(response, 403, "forbidden")


@pytest.mark.parametrize("name", ENDED)
def test_a_stranger_sees_nothing(name: str, world: World) -> None:
    case = CASES[name]
    response = ask(Person(world.carol), name, world)
    if case.needs == "self":
        assert response.status_code == case.ok, response.content
        assert b"alice" not in response.content
    else:
        refused(response, 404, "not_found")


@pytest.mark.parametrize("name", [name for name in ENDED if "{" in name])
def test_absent_and_not_yours_are_the_same(name: str, world: World) -> None:
    method, template = name.split(" ")
    query = QUERIES.get(name, "")
    absent = "999999" if "{id}" not in name else "nobody"
    for key in ("id", "key_id", "session_id"):
        template = template.replace("{" + key + "}", absent)
    stranger = Person(world.carol)
    body = CASES[name].body(world)
    there = ask(stranger, name, world)
    nowhere = stranger.ask(method, template + query, body)
    assert (there.status_code, there.content) == (nowhere.status_code, nowhere.content)


@pytest.mark.parametrize("name", CASES)
def test_signed_out(name: str, world: World) -> None:
    refused(ask(Person(), name, world), 401, "signed_out")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_revoked", [False, True])
def test_a_key_opens_nothing(name: str, is_revoked: bool, world: World) -> None:
    key = key_of(world.alice, is_revoked=is_revoked)
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-Api-Key": key}):
        refused(ask(Person(), name, world, **headers), 401, "signed_out")


@pytest.mark.parametrize("name", CASES)
def test_an_account_that_is_off(name: str, world: World) -> None:
    person = Person(world.alice)
    address = CASES[name].url(name.split(" ")[1], world)  # as long as sessions can be listed
    User.objects.filter(pk=world.alice.pk).update(is_active=False)
    response = person.ask(name.split(" ")[0], address, CASES[name].body(world))
    refused(response, 401, "signed_out")


@pytest.mark.parametrize("name", CASES)
def test_a_session_that_was_ended(name: str, world: World) -> None:
    person = Person(world.alice)
    address = CASES[name].url(name.split(" ")[1], world)
    person.client.session.delete()
    refused(person.ask(name.split(" ")[0], address, CASES[name].body(world)), 401, "signed_out")


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("GET ")])
def test_writing_needs_the_token_of_our_page(name: str, world: World) -> None:
    refused(ask(Person(world.alice, csrf=False), name, world), 403, "forbidden")
    evil = {"Origin": "https://evil.example"}
    refused(ask(Person(world.alice), name, world, **evil), 403, "forbidden")


def test_lists_hold_ones_own(world: World) -> None:
    def titles(user: Any) -> list[str]:
        page = Person(user).json("GET", "conversations")
        return [row["title"] for row in page["conversations"]]

    assert titles(world.alice) == ["alice's secret"]
    assert titles(world.bob) == titles(world.carol) == []
    world.share(can_write=False)
    assert titles(world.bob) == ["alice's secret"]
    assert titles(world.carol) == []
