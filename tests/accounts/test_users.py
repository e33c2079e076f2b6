"""Users: the e-mail address is optional, and one person's when given."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from tests.factories import UserFactory

pytestmark = [pytest.mark.usefixtures("both_databases"), pytest.mark.django_db]


def test_many_users_without_an_address() -> None:
    UserFactory.create(email="")
    UserFactory.create(email="")


def test_one_user_an_address_whatever_its_case() -> None:
    UserFactory.create(email="a@example.org")
    UserFactory.create(email="b@example.org")
    with pytest.raises(IntegrityError), transaction.atomic():
        UserFactory.create(email="A@example.org")
