"""Whose key is this: on both databases."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
import time_machine
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from llamaweb.accounts import keys, selectors
from llamaweb.accounts.caller import caller_from_key
from llamaweb.accounts.models import ApiKey, AuditAction, AuditEvent, Scope
from llamaweb.accounts.selectors import api_key_authenticate
from llamaweb.accounts.services import api_key_create, api_key_revoke
from llamaweb.lib.errors import AuthenticationError, InvalidError

pytestmark = [pytest.mark.usefixtures("both_databases"), pytest.mark.django_db]
NOW = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def key(alice: Any) -> tuple[ApiKey, str]:
    return api_key_create(user=alice, name="laptop", expires_at=timezone.now() + dt.timedelta(1))


def test_the_right_key_names_its_user(key: tuple[ApiKey, str], alice: Any) -> None:
    assert api_key_authenticate(key[1]).user == alice


def test_the_key_itself_is_stored_nowhere(key: tuple[ApiKey, str]) -> None:
    row, raw = key
    row.refresh_from_db()
    for value in vars(row).values():
        assert raw not in str(value)
    assert row.digest != raw
    assert raw.startswith(row.prefix)


def _revoke(row: ApiKey) -> None:
    api_key_revoke(key=row)


def _expire(row: ApiKey) -> None:
    ApiKey.objects.filter(pk=row.pk).update(expires_at=timezone.now())


def _deactivate(row: ApiKey) -> None:
    row.user.is_active = False
    row.user.save()


def _delete(row: ApiKey) -> None:
    row.delete()


@pytest.mark.parametrize("end", [_revoke, _expire, _deactivate, _delete])
def test_a_dead_key_is_refused_at_once(
    key: tuple[ApiKey, str], end: Callable[[ApiKey], None]
) -> None:
    assert api_key_authenticate(key[1])
    end(key[0])
    with pytest.raises(AuthenticationError, match="Invalid API Key"):
        api_key_authenticate(key[1])


def test_a_malformed_key_costs_no_query(
    key: tuple[ApiKey, str], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for raw in ("", "x", key[1][:-1] + "_", "Bearer " + key[1]):
        with django_assert_num_queries(0), pytest.raises(AuthenticationError):
            api_key_authenticate(raw)


def test_an_unknown_key_costs_one_query_for_a_while(
    db: None,
    django_assert_num_queries: DjangoAssertNumQueries,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raw = keys.new_key()
    for queries in (1, 0):
        with django_assert_num_queries(queries), pytest.raises(AuthenticationError):
            api_key_authenticate(raw)
    monkeypatch.setattr(selectors, "UNKNOWN_KEPT_S", -1.0)  # remembered, but over already
    monkeypatch.setattr(selectors, "_unknown", selectors._Unknown())
    for _ in range(2):
        with django_assert_num_queries(1), pytest.raises(AuthenticationError):
            api_key_authenticate(raw)


def test_the_memory_of_unknown_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "UNKNOWN_KEPT_COUNT", 3)
    memory = selectors._Unknown()
    for number in range(5):
        memory.add(str(number))
    assert [memory.has(str(number)) for number in range(5)] == [False, False, True, True, True]


def test_the_last_use_is_written_at_most_once_a_minute(
    alice: Any, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with time_machine.travel(NOW, tick=False) as clock:
        row, raw = api_key_create(user=alice, name="laptop")
        for step_s, queries, last_use_s in ((0, 2, 0), (59, 1, 0), (1, 2, 60), (30, 1, 60)):
            clock.shift(step_s)
            with django_assert_num_queries(queries):
                api_key_authenticate(raw)
            row.refresh_from_db()
            assert row.last_used_at == NOW + dt.timedelta(seconds=last_use_s)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"expires_at": NOW}, "expires_at"),
        ({"model_names": [""]}, "models[0]"),
        ({"model_names": ["ok", "x" * 129]}, "models[1]"),
        ({"model_names": ["a\nb"]}, "models[0]"),
        ({"model_names": [f"m{number}" for number in range(101)]}, "models"),
    ],
)
def test_what_can_not_be_made_names_its_field(
    alice: Any, options: dict[str, Any], param: str
) -> None:
    with pytest.raises(InvalidError) as caught:
        api_key_create(**{"user": alice, "name": "laptop", **options})
    assert caught.value.param == param
    assert not ApiKey.objects.exists()


def test_scopes_are_kept_once_and_sorted(alice: Any) -> None:
    row, _ = api_key_create(user=alice, name="all", scopes=[*Scope, Scope.ADMIN])
    assert row.scopes == sorted(Scope.values)


def test_models_are_kept_once_and_sorted(alice: Any) -> None:
    row, _ = api_key_create(user=alice, name="two", model_names=["b", "a", "b"])
    assert row.model_names == ["a", "b"]
    assert caller_from_key(row).model_names == {"a", "b"}
    event = AuditEvent.objects.get(action=AuditAction.API_KEY_CREATED)
    assert event.detail["model_names"] == ["a", "b"]


def test_the_number_of_keys_is_bounded(alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llamaweb.accounts.services.MAX_KEYS_PER_USER", 2)
    first, _ = api_key_create(user=alice, name="1")
    api_key_create(user=alice, name="2")
    with pytest.raises(InvalidError):
        api_key_create(user=alice, name="3")
    api_key_revoke(key=first)
    api_key_create(user=alice, name="3")
