"""Users and their keys."""

from __future__ import annotations

from typing import Any

import factory
from django.conf import settings
from django.utils import timezone

from llamaweb.accounts import keys
from llamaweb.accounts.models import ApiKey, Scope, User
from llamaweb.accounts.services import api_key_create


class UserFactory(factory.django.DjangoModelFactory[User]):
    """A person who can log in with the password "password"."""

    class Meta:
        model = User
        skip_postgeneration_save = True

    username = factory.Sequence(lambda number: f"user{number}")
    password = factory.django.Password("password")


class ApiKeyFactory(factory.django.DjangoModelFactory[ApiKey]):
    """A row whose key nobody knows; `make_key` gives a usable one."""

    class Meta:
        model = ApiKey

    user = factory.SubFactory(UserFactory)
    name = factory.Sequence(lambda number: f"key {number}")
    prefix = "lw-factory"
    digest = factory.LazyFunction(lambda: keys.digest(keys.new_key(), settings.API_KEY_HMAC_KEY))
    scopes = factory.LazyFunction(lambda: [Scope.INFERENCE.value])
    created_at = factory.LazyFunction(timezone.now)


def make_key(user: User, **options: Any) -> str:
    """A usable key of `user`, as the service makes it."""
    return api_key_create(user=user, name=options.pop("name", "test"), **options)[1]
