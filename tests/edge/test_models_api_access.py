"""Who may use a model: everybody, or chosen people and groups. For others it doesn't exist."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client

from inference import api
from inference.models import ModelConfig
from inference.queues.contract import EngineStatus
from inference.registry.model_access import access_models, model_access_set
from llamaweb.accounts.models import AuditEvent, User
from tests.edge.events import answer
from tests.edge.wire import CHAT, HELLO
from tests.factories import UserFactory, make_key
from tests.fakes.inference_api import FakeInference, scripted

pytestmark = [pytest.mark.usefixtures("both_databases"), pytest.mark.django_db]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> FakeInference:
    """Answers to everything; which model is meant, the database says."""
    fake = FakeInference(scripted(*answer("Hi")))
    for name in ("generation_submit", "generation_events", "generation_cancel"):
        monkeypatch.setattr(api, name, getattr(fake, name))

    async def engine_list(model: str) -> tuple[EngineStatus, ...]:
        return (EngineStatus("e1", "ready", 1, 0, 0.1, False, {"max_context": 512}),)

    monkeypatch.setattr(api, "engine_list", engine_list)
    return fake


@pytest.fixture
def public(db: None) -> ModelConfig:
    return ModelConfig.objects.create(name="public", is_default=True, engine_class="mock")


@pytest.fixture
def secret(alice: User, bob: User) -> ModelConfig:
    """For alice by name, for bob as a member of a group, for carol not at all."""
    config = ModelConfig.objects.create(
        name="secret", engine_class="mock", aliases=["hidden/one"], tags=["new"]
    )
    group = Group.objects.create(name="testers")
    bob.groups.add(group)
    model_access_set(config=config, is_restricted=True, users=[alice], groups=[group])
    return config


def client_of(user: User) -> Client:
    return Client(headers={"Authorization": f"Bearer {make_key(user)}"})


def ask(user: User, model: str, **fields: Any) -> Any:
    body = {"messages": HELLO, "model": model, **fields}
    return client_of(user).post(CHAT, body, content_type="application/json")


def test_owner_and_group_use_it_by_name_and_alias(
    engines: FakeInference, public: ModelConfig, secret: ModelConfig, alice: User, bob: User
) -> None:
    for user in (alice, bob):
        listed = client_of(user).get("/v1/models").json()["data"]
        assert [model["id"] for model in listed] == ["public", "secret"]
        one = client_of(user).get("/v1/models/hidden/one").json()
        assert (one["id"], one["aliases"]) == ("secret", ["hidden/one"])
        for name in ("secret", "hidden/one"):
            assert ask(user, name).status_code == 200
    assert {request.model for request in engines.submitted} == {"secret"}


def test_for_others_it_does_not_exist(
    engines: FakeInference, public: ModelConfig, secret: ModelConfig, carol: User
) -> None:
    client = client_of(carol)
    assert [m["id"] for m in client.get("/v1/models").json()["data"]] == ["public"]
    for name in ("secret", "hidden/one", "absent"):
        for response in (client.get(f"/v1/models/{name}"), ask(carol, name)):
            assert response.status_code == 404
            assert response.json()["error"]["message"] == f"the model {name!r} does not exist"
    assert engines.submitted == []


def test_without_a_name_it_is_the_first_that_one_may_use(
    engines: FakeInference, public: ModelConfig, secret: ModelConfig, alice: User, carol: User
) -> None:
    model_access_set(config=public, is_restricted=True)
    assert ask(alice, "default").status_code == 200
    assert engines.submitted[0].model == "secret"
    assert ask(carol, "default").status_code == 503
    assert client_of(carol).get("/v1/models").json()["data"] == []


def test_a_superuser_may_use_all_and_an_inactive_account_nothing(
    public: ModelConfig, secret: ModelConfig, carol: User
) -> None:
    root = UserFactory.create(username="root", is_superuser=True)
    assert {config.name for config in access_models(root.pk)} == {"public", "secret"}
    assert {config.name for config in access_models(carol.pk)} == {"public"}
    for user in (root, carol):
        user.is_active = False
        user.save()
        assert not access_models(user.pk).exists()


def test_a_member_who_leaves_the_group_loses_it(secret: ModelConfig, bob: User) -> None:
    assert access_models(bob.pk).exists()
    bob.groups.clear()
    assert not access_models(bob.pk).exists()


def test_a_change_is_written_down_once(secret: ModelConfig, alice: User, carol: User) -> None:
    assert model_access_set(config=secret, is_restricted=True, users=[alice, carol], actor=alice)
    assert not model_access_set(config=secret, is_restricted=True, users=[carol, alice])
    event = AuditEvent.objects.get(action="model_config.access", actor_name="alice")
    assert event.detail["users"] == ["alice", "carol"]
    assert (event.detail["groups"], event.detail["is_restricted"]) == ([], True)


def test_a_models_sampling_holds_where_a_request_says_nothing(
    engines: FakeInference, public: ModelConfig, alice: User
) -> None:
    ModelConfig.objects.update(sampling={"temperature": 0.25, "top_k": 7})
    assert ask(alice, "public", temperature=0.5).status_code == 200
    assert ask(alice, "public", top_k=None).status_code == 200
    first, second = (request.sampling for request in engines.submitted)
    assert (first.temperature, first.top_k) == (0.5, 7)
    assert (second.temperature, second.top_k, second.top_p) == (0.25, 7, None)


def keyed(user: User, *names: str, scopes: tuple[str, ...] = ("inference",)) -> Client:
    key = make_key(user, model_names=names, scopes=scopes)
    return Client(headers={"Authorization": f"Bearer {key}"})


def test_a_key_for_certain_models_knows_no_other(
    engines: FakeInference, public: ModelConfig, secret: ModelConfig, alice: User
) -> None:
    client = keyed(alice, "secret", "absent")
    listed = client.get("/v1/models").json()["data"]
    assert [model["id"] for model in listed] == ["secret"]
    assert client.get("/v1/models/public").status_code == 404
    assert client.get("/lora-adapters?model=public").status_code == 404
    for name, status in (("secret", 200), ("hidden/one", 200), ("default", 200), ("public", 404)):
        body = {"messages": HELLO, "model": name}
        answered = client.post(CHAT, body, content_type="application/json")
        assert answered.status_code == status, name
    assert {request.model for request in engines.submitted} == {"secret"}


def test_a_key_opens_no_model_that_its_owner_may_not_use(
    engines: FakeInference, public: ModelConfig, secret: ModelConfig, carol: User
) -> None:
    client = keyed(carol, "secret")
    assert client.get("/v1/models").json()["data"] == []
    body = {"messages": HELLO, "model": "secret"}
    assert client.post(CHAT, body, content_type="application/json").status_code == 404
    assert engines.submitted == []


def test_a_key_for_certain_models_administers_none(public: ModelConfig) -> None:
    root = UserFactory.create(is_staff=True, is_superuser=True)
    body = {"model": "public"}
    for names, status in (((), 200), (("public",), 403)):
        client = keyed(root, *names, scopes=("models:write",))
        load = client.post("/v1/models/unload", body, content_type="application/json")
        assert load.status_code == status
