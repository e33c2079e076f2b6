"""Who may still have an answer that runs: key, user and model are asked again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from inference.models import ModelConfig
from inference.registry.model_access import model_access_set
from inference.registry.standing import Standing, standings_lost
from llamaweb.accounts.models import ApiKey
from llamaweb.accounts.services import api_key_create, api_key_revoke
from llamaweb.accounts.user_services import user_save
from tests.factories import UserFactory

pytestmark = [pytest.mark.usefixtures("both_databases"), pytest.mark.django_db]


@pytest.fixture
def model(db: None) -> ModelConfig:
    return ModelConfig.objects.create(name="mock", is_default=True)


@pytest.fixture
def key(alice: Any, model: ModelConfig) -> ApiKey:
    return api_key_create(user=alice, name="k", model_names=["mock", "other"])[0]


def revoke(key: ApiKey) -> None:
    api_key_revoke(key=key)


def expire(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - dt.timedelta(seconds=1))


def narrow(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(model_names=["other"])


def deactivate(key: ApiKey) -> None:
    key.user.is_active = False
    user_save(user=key.user)


def delete_user(key: ApiKey) -> None:
    key.user.delete()


def restrict(_key: ApiKey) -> None:
    model_access_set(config=ModelConfig.objects.get(name="mock"), is_restricted=True)


def disable(_key: ApiKey) -> None:
    ModelConfig.objects.filter(name="mock").update(is_enabled=False)


LOSSES = [revoke, expire, narrow, deactivate, delete_user, restrict, disable]


@pytest.mark.parametrize("lose", LOSSES)
def test_what_takes_the_right_away(key: ApiKey, bob: Any, lose: Callable[[ApiKey], None]) -> None:
    mine = Standing(key.user.pk, key.pk, "mock")
    other = api_key_create(user=bob, name="bob's")[0]
    his = Standing(bob.pk, other.pk, "mock")
    session = Standing(bob.pk, 0, "mock")
    assert standings_lost({mine, his, session}) == set()
    lose(key)
    everybody = lose in (restrict, disable)
    assert standings_lost({mine, his, session}) == ({mine, his, session} if everybody else {mine})


def test_a_key_is_good_for_its_own_user_only(key: ApiKey, bob: Any) -> None:
    assert standings_lost({Standing(bob.pk, key.pk, "mock")})
    assert standings_lost({Standing(key.user.pk, key.pk, "absent")})
    restricted = ModelConfig.objects.get(name="mock")
    model_access_set(config=restricted, is_restricted=True, users=[key.user])
    root = UserFactory.create(is_superuser=True)
    asked = {Standing(user.pk, 0, "mock") for user in (key.user, bob, root)}
    assert standings_lost(asked) == {Standing(bob.pk, 0, "mock")}
