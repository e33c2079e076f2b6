"""What a key of each scope opens on the real routes."""

from __future__ import annotations

import pytest
from django.test import Client

from llamaweb.accounts.models import Scope, User
from tests.factories import make_key

pytestmark = pytest.mark.django_db
LIST, ONE, CHAT = "/v1/models", "/v1/models/absent", "/v1/chat/completions"


@pytest.mark.parametrize(
    ("scope", "chat_status"),
    [(Scope.MODELS_READ, 403), (Scope.INFERENCE, 400), (Scope.ADMIN, 400)],
)
def test_scopes(alice: User, scope: Scope, chat_status: int) -> None:
    client = Client(headers={"Authorization": f"Bearer {make_key(alice, scopes=[scope])}"})
    assert client.get(LIST).status_code == 200
    assert client.get(ONE).status_code == 404
    refused = client.post(CHAT, {"messages": "x"}, content_type="application/json")
    assert refused.status_code == chat_status
    if chat_status == 403:
        assert "'inference'" in refused.json()["error"]["message"]
