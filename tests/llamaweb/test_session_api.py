"""The browser's session in place of a key, on the routes of every family."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from llamaweb.accounts import keys
from llamaweb.accounts.models import User
from tests.factories import make_key

pytestmark = pytest.mark.django_db
TOKEN = "a" * 32
READ = ["/v1/models", "/models", "/api/tags"]
# A body that the route refuses: whoever hears of it was let in.
WRITE = ["/v1/chat/completions", "/chat/completions", "/api/chat"]
WRONG_BODY = {"messages": "x"}


def browser(user: User | None = None, *, csrf: bool = True, **headers: str) -> Client:
    """Of somebody who is signed in; with the CSRF token as our own pages send it."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    client = Client(enforce_csrf_checks=True, headers=named)
    if user is not None:
        client.force_login(user)
    if csrf:
        client.cookies[settings.CSRF_COOKIE_NAME] = TOKEN
        client = _with_token(client, named)
    return client


def _with_token(client: Client, named: dict[str, str]) -> Client:
    made = Client(enforce_csrf_checks=True, headers={**named, "X-CSRFToken": TOKEN})
    made.cookies = client.cookies
    return made


def post(client: Client, path: str, body: Any = WRONG_BODY) -> Any:
    return client.post(path, body, content_type="application/json")


@pytest.mark.parametrize("path", READ)
def test_who_is_signed_in_may_read(alice: User, path: str) -> None:
    response = browser(alice, csrf=False).get(path)
    assert response.status_code == 200
    assert response.json()["models"] is not None


@pytest.mark.parametrize("path", WRITE)
def test_who_is_signed_in_may_ask_from_our_own_pages(alice: User, path: str) -> None:
    assert post(browser(alice), path).status_code == 400


@pytest.mark.parametrize("path", WRITE)
def test_other_pages_may_not_ask_in_their_name(alice: User, path: str) -> None:
    response = post(browser(alice, csrf=False), path)
    assert response.status_code == 403
    assert "X-CSRFToken" in response.content.decode()


@pytest.mark.parametrize("path", WRITE)
def test_the_right_token_from_a_foreign_origin_is_not_enough(alice: User, path: str) -> None:
    assert post(browser(alice, origin="https://evil.example"), path).status_code == 403


@pytest.mark.parametrize("path", [*READ, *WRITE])
def test_nobody_and_who_was_signed_out_needs_a_key(alice: User, path: str) -> None:
    client = browser(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    ended = browser(alice)
    ended.session.delete()
    for each in (browser(), client, ended):
        response = each.get(path) if path in READ else post(each, path)
        assert response.status_code == 401
        assert "Vary" not in response


def test_a_session_that_a_new_password_ended_is_none(alice: User) -> None:
    client = browser(alice)
    alice.set_password("a new password of hers")
    alice.save()
    assert client.get("/v1/models").status_code == 401


def test_a_key_decides_also_beside_a_session(alice: User, bob: User) -> None:
    assert browser(alice, x_api_key=keys.new_key()).get("/v1/models").status_code == 401
    client = browser(alice, csrf=False, x_api_key=make_key(bob))
    assert post(client, "/v1/chat/completions").status_code == 400


def test_a_key_pays_nothing_for_a_session(
    alice: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    client = browser(alice, csrf=False, authorization=f"Bearer {make_key(alice)}")
    post(client, "/v1/chat/completions")  # notes the key's use
    with django_assert_num_queries(1):
        post(client, "/v1/chat/completions")


def test_a_session_administers_nothing(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True, is_superuser=True)
    response = post(browser(alice), "/models/load", {"model": "x"})
    assert response.status_code == 403
    assert "a session lacks the scope" in response.json()["error"]["message"]


def test_a_form_with_files_is_no_way_around(alice: User) -> None:
    def form(**fields: str) -> dict[str, Any]:
        return {"file": SimpleUploadedFile("a.json", b"{}"), **fields}

    for client in (browser(alice, csrf=False), browser(alice)):
        wrong = client.post("/api/chat", form(csrfmiddlewaretoken="b" * 32))
        assert wrong.status_code == 403
    assert browser(alice).post("/api/chat", form()).status_code == 400  # it is no JSON


MANY_FIELDS = "&".join(f"a{n}=1" for n in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1))
FORM, FILES = "application/x-www-form-urlencoded", "multipart/form-data"


@pytest.mark.parametrize("path", WRITE)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (MANY_FIELDS, FORM),
        ("a=1", f"{FORM}; charset=latin-1"),
        ("a", FILES),
        ("a", f"{FILES}; boundary=é"),
    ],
)
def test_a_form_that_can_not_be_read_is_the_clients_mistake(
    alice: User, path: str, body: str, kind: str
) -> None:
    data = body.encode()
    answers = [
        browser(alice, csrf=csrf).post(path, data, content_type=kind) for csrf in (False, True)
    ]
    assert [answer.status_code for answer in answers] == [403, 400]
    assert "form" in answers[1].content.decode()


def test_a_query_of_too_many_fields_is_the_clients_mistake(alice: User) -> None:
    response = browser(alice).get(f"/v1/stream?{MANY_FIELDS}")
    assert response.status_code == 400
    most = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
    assert f"at most {most} fields" in response.json()["error"]["message"]


def test_requests_of_one_user_are_bounded_as_those_of_a_key(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "KEY_RATE", 2)
    got = [browser(alice).get("/v1/models").status_code for _ in range(3)]
    assert got == [200, 200, 429]
