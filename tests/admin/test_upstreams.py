"""Upstream servers in the administration: added and changed, their keys never shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from inference import bus
from inference.models import ModelConfig
from inference.queues.contract import Beat
from inference.registry.upstreams import upstream_add, upstream_key
from inference.registry.wanted import model_unload
from inference.upstream_models import Upstream
from llamaweb.accounts.models import AuditEvent, User

pytestmark = pytest.mark.django_db
BASE = "/admin/inference/upstream/"
KEY = "sk-upstream-0123456789"
URL = "https://api.example.org/v1"


def form(**values: Any) -> dict[str, Any]:
    filled = {
        "url": URL,
        "remote_model": "big",
        "key": KEY,
        "dialect": "openai",
        "name": "far",
        "num_slots": 3,
        "context_len": 0,
        "load": "on",
    } | values
    return {name: value for name, value in filled.items() if value is not None}


@pytest.fixture
def upstream(db: None) -> Upstream:
    ModelConfig.objects.create(name="first", is_default=True, engine_class="mock")
    return upstream_add(name="far", url=URL, remote_model="big", key=KEY).upstream


def change(admin: Client, upstream: Upstream, **values: Any) -> Any:
    filled = form(key="", **values)
    return admin.post(f"{BASE}{upstream.pk}/change/", filled, follow=True)


def stored(upstream: Upstream) -> Upstream:
    return Upstream.objects.get(pk=upstream.pk)


def test_adding_one(admin: Client) -> None:
    response = admin.post(f"{BASE}add/", form())
    config = ModelConfig.objects.get(name="far")
    assert response.url == f"/admin/inference/modelconfig/{config.pk}/change/"
    assert (config.engine_class, config.wanted, config.num_slots) == ("upstream", "loaded", 3)
    assert upstream_key(config.upstream) == KEY
    event = AuditEvent.objects.latest("id")
    assert (event.action, event.actor_name) == ("model_config.added", "root")
    assert event.detail["upstream"] == "https://api.example.org:443"
    assert admin.get(response.url).status_code == 200


@pytest.mark.parametrize(
    "values",
    [{"url": "x"}, {"key": "a b"}, {"remote_model": ""}, {"name": "default"}, {"num_slots": 0}],
)
def test_what_is_wrong_is_said_beside_the_field(admin: Client, values: dict[str, Any]) -> None:
    response = admin.post(f"{BASE}add/", form(**values))
    assert response.status_code == 200
    assert list(response.context["adminform"].form.errors) == list(values)
    assert not Upstream.objects.exists()


def test_no_page_shows_a_key(admin: Client, upstream: Upstream) -> None:
    sealed = upstream.sealed_key
    pages = [
        BASE,
        f"{BASE}{upstream.pk}/change/",
        f"/admin/inference/modelconfig/{upstream.pk}/change/",
    ]
    texts = [admin.get(url).content.decode() for url in pages]
    texts.append(admin.post(f"{BASE}add/", form(url="x")).content.decode())
    texts.append(change(admin, upstream, dialect="nonsense").content.decode())
    for text in texts:
        assert KEY not in text
        assert sealed not in text


def test_a_key_stays_unless_it_is_changed_or_removed(admin: Client, upstream: Upstream) -> None:
    change(admin, upstream, remote_model="bigger")
    assert stored(upstream).remote_model == "bigger"
    assert upstream_key(stored(upstream)) == KEY
    admin.post(f"{BASE}{upstream.pk}/change/", form(key="sk-new"))
    assert upstream_key(stored(upstream)) == "sk-new"
    change(admin, upstream, forget_key="on")
    assert stored(upstream).sealed_key == ""


def test_another_server_needs_a_key_of_its_own(admin: Client, upstream: Upstream) -> None:
    response = change(admin, upstream, url="https://evil.example.org/v1")
    assert "key" in response.context["adminform"].form.errors
    assert stored(upstream).url == URL
    both = form(key="sk-x", forget_key="on")
    response = admin.post(f"{BASE}{upstream.pk}/change/", both)
    assert "key" in response.context["adminform"].form.errors


def test_its_page_among_the_models(admin: Client, upstream: Upstream) -> None:
    page = f"/admin/inference/modelconfig/{upstream.pk}/change/"
    text = admin.get(page).content.decode()
    assert "big of another server" in text
    assert "chat_template" not in text
    assert "gpu_layers" not in text
    numbers = {
        "name": "farther",
        "is_enabled": "on",
        "num_slots": 7,
        "context_len": 100,
        "thinking": "auto",
    }
    assert "name" in admin.post(page, numbers).context["adminform"].form.errors
    model_unload(config=ModelConfig.objects.get(pk=upstream.pk))  # no request waits by its old name
    assert admin.post(page, numbers).status_code == 302
    config = ModelConfig.objects.get(pk=upstream.pk)
    assert (config.name, config.num_slots, config.context_len) == ("farther", 7, 100)
    assert "big of another server" in admin.get("/admin/inference/modelconfig/").content.decode()
    upstream.delete()  # a hand in the database: pages open all the same
    assert admin.get(page).status_code == 200


def test_the_live_page_says_what_an_engine_says(admin: Client, upstream: Upstream) -> None:
    beat = Beat("far-1", "starting", info={"reason": "the upstream server refuses the key"})
    bus.sync_queue().beat("far", beat)
    state = admin.get("/admin/engines/state/").json()
    (model,) = [model for model in state["models"] if model["name"] == "far"]
    assert (model["state"], model["reason"]) == ("starting", "the upstream server refuses the key")


def test_who_may_not(upstream: Upstream, viewer: User, alice: User) -> None:
    for user in (viewer, alice):
        client = Client()
        client.force_login(user)
        assert client.post(f"{BASE}add/", form(name="other")).status_code in (302, 403)
        client.post(f"{BASE}{upstream.pk}/change/", form(remote_model="stolen"))
        assert client.post(f"{BASE}{upstream.pk}/delete/", {"post": "yes"}).status_code in (
            302,
            403,
        )
    permission = Permission.objects.get(codename="add_upstream")
    viewer.user_permissions.add(permission)  # models may not be added, so neither may these
    client = Client()
    client.force_login(User.objects.get(pk=viewer.pk))
    assert client.post(f"{BASE}add/", form(name="other")).status_code == 403
    assert stored(upstream).remote_model == "big"
    assert Upstream.objects.count() == 1
