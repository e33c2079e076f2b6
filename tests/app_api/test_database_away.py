"""A database that is away is 503 and worth another try, whatever is asked."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from conversations import selectors
from conversations.edge import routes
from tests.app_api.world import Person

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("error", [OperationalError, InterfaceError])
def test_it_is_unavailable(
    error: type[Exception], alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any, **_values: Any) -> None:
        raise error("secret detail")

    monkeypatch.setattr(selectors, "conversation_page", fail)
    monkeypatch.setattr(routes, "act_run", fail)
    person = Person(alice)
    for response in (person.ask("GET", "conversations"), person.ask("POST", "conversations", {})):
        assert response.status_code == 503
        body = response.json()["error"]
        assert (body["code"], body["retryable"]) == ("unavailable", True)
        assert "secret" not in response.content.decode()
