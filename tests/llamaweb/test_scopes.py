"""What a key of each scope opens on the real routes."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from inference.edge.models import watch
from llamaweb.accounts.models import Scope, User
from llamaweb.api import anthropic_api, native_api, ollama_api, openai_api
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


# Which scopes open a route; all others need `inference`. An `admin` key opens all.
LISTS = {Scope.MODELS_READ, Scope.INFERENCE}
FOLLOWED = {*LISTS, Scope.MODELS_WRITE}
RULES: dict[tuple[str, str], set[Scope]] = {
    ("get", "/v1/models"): FOLLOWED,
    ("get", "/v1/models/sse"): FOLLOWED,
    ("get", "/v1/models/{name}"): LISTS,
    ("get", "/v1/lora-adapters"): LISTS,
    ("post", "/v1/lora-adapters"): {Scope.MODELS_WRITE},
    ("post", "/v1/models"): {Scope.MODELS_WRITE},
    ("delete", "/v1/models"): {Scope.MODELS_WRITE},
    ("post", "/v1/models/load"): {Scope.MODELS_WRITE},
    ("post", "/v1/models/unload"): {Scope.MODELS_WRITE},
    ("get", "/api/tags"): LISTS,
    ("get", "/api/ps"): LISTS,
    ("post", "/api/show"): LISTS,
    ("get", "/api/version"): LISTS,
}
VECTORS = ("embed", "rerank")


def _routes() -> list[tuple[str, str]]:
    apis = ((openai_api, "/v1/"), (anthropic_api, "/v1/"), (ollama_api, "/api/"), (native_api, "/"))
    return sorted(
        {
            (method, path)
            for api, prefix in apis
            for path, methods in api.get_openapi_schema(path_prefix=prefix)["paths"].items()
            for method in methods
        }
    )


@pytest.mark.parametrize("scope", Scope)
def test_a_scope_opens_its_routes_and_no_other(
    alice: User, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MAX_LISTENERS", 0)  # a stream would have no end
    client = Client(headers={"Authorization": f"Bearer {make_key(alice, scopes=[scope])}"})
    for method, path in _routes():
        needed = RULES.get((method, path), {Scope.INFERENCE})
        if any(word in path for word in VECTORS):
            needed = {Scope.EMBEDDINGS, Scope.INFERENCE}
        call = getattr(client, method)
        address = re.sub(r"\{[^}]+\}", "1", path)
        answer = call(address) if method == "get" else call(address, "[", "application/json")
        is_open = "lacks the scope" not in answer.content.decode()
        assert is_open == (scope in needed or scope is Scope.ADMIN), (method, path, scope)
        assert is_open or answer.status_code == 403
