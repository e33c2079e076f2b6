"""Rows of upstream servers: checked, their keys sealed, and opened for the engine alone."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from inference.models import ModelConfig
from inference.registry.upstreams import upstream_add, upstream_change, upstream_key, url_check
from inference.supervisor.upstream_specs import upstream_spec
from inference.upstream_models import Upstream
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.errors import FailedError, InvalidError

pytestmark = pytest.mark.django_db
KEY = "sk-upstream-0123456789"
URL = "https://api.example.org/v1"


def add(**values: Any) -> ModelConfig:
    values = {"name": "far", "url": URL, "remote_model": "big", "key": KEY} | values
    return upstream_add(**values)


def test_what_the_engine_is_told(settings: Any) -> None:
    settings.OUTBOUND_ALLOW = ("box.example.org", ipaddress.ip_network("10.0.0.0/8"))
    config = add(url=URL + "/", dialect="llama_server", continues=True, context_len=9, num_slots=2)
    spec = upstream_spec(config)
    assert (spec.url, spec.model, spec.key, spec.dialect, spec.continues) == (
        URL, "big", KEY, "llama_server", True,
    )  # fmt: skip
    assert spec.allow == ("box.example.org", "10.0.0.0/8")
    assert (config.engine_class, config.context_len, config.num_slots) == ("upstream", 9, 2)
    assert config.wanted == "auto"


def test_a_model_that_runs_here_has_none() -> None:
    assert upstream_spec(ModelConfig(name="here", engine_class="llama")).url == ""


def test_the_key_is_stored_sealed_and_written_nowhere_else() -> None:
    config = add()
    upstream_change(upstream=config.upstream, key=KEY + "2")
    stored = Upstream.objects.get(pk=config.pk)
    assert KEY not in repr(Upstream.objects.values().get(pk=config.pk))
    assert upstream_key(stored) == KEY + "2"
    assert KEY not in repr(list(AuditEvent.objects.values()))
    assert KEY not in repr(upstream_spec(config))
    changed = AuditEvent.objects.latest("id")
    assert (changed.action, changed.detail["changed"]) == ("model_config.changed", ["key"])


def test_another_secret_key_opens_nothing(settings: Any) -> None:
    config = add()
    settings.SECRET_KEY = "another" * 8
    with pytest.raises(FailedError, match="enter it again"):
        upstream_spec(config)
    upstream_change(upstream=config.upstream, key=KEY)
    assert upstream_spec(config).key == KEY


def test_a_key_is_sent_to_the_server_it_was_given_for() -> None:
    upstream = add().upstream
    for url in (
        "https://evil.example.org/v1",
        "http://api.example.org/v1",
        URL.replace(".org", ".org:8443"),
    ):
        upstream.url = url
        with pytest.raises(InvalidError) as caught:
            upstream_change(upstream=upstream)
        assert caught.value.param == "key"
        Upstream.objects.filter(pk=upstream.pk).update(url=url)  # a hand in the database
        with pytest.raises(FailedError):
            upstream_key(Upstream.objects.get(pk=upstream.pk))
        Upstream.objects.filter(pk=upstream.pk).update(url=URL)
    upstream.url = "https://api.example.org/v2"
    assert upstream_change(upstream=upstream)
    assert upstream_key(Upstream.objects.get(pk=upstream.pk)) == KEY
    upstream.url = "https://other.example.org/v1"
    assert upstream_change(upstream=upstream, key="")
    assert upstream_key(Upstream.objects.get(pk=upstream.pk)) == ""


def test_a_change_restarts_the_engine_and_no_change_does_not() -> None:
    config = add()
    assert not upstream_change(upstream=config.upstream)
    before = ModelConfig.objects.get(pk=config.pk).updated_at
    config.upstream.remote_model = "bigger"
    assert upstream_change(upstream=config.upstream)
    assert ModelConfig.objects.get(pk=config.pk).updated_at > before


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({"url": "ftp://x/v1"}, "url"),
        ({"url": "https://u:p@x/v1"}, "url"),
        ({"url": "https://x/v1/chat/completions"}, "url"),
        ({"url": "https://x/v1/models/"}, "url"),
        ({"url": "https://x/v1?key=1"}, "url"),
        ({"url": "https://x/" + "v" * 3000}, "url"),
        ({"key": "two words"}, "key"),
        ({"key": "né"}, "key"),
        ({"key": "a\nb"}, "key"),
        ({"key": "k" * 5000}, "key"),
        ({"remote_model": ""}, "remote_model"),
        ({"remote_model": "a\x00"}, "remote_model"),
        ({"name": "default"}, "name"),
        ({"name": "no spaces"}, "name"),
    ],
)
def test_what_is_refused(values: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidError) as caught:
        add(**values)
    assert caught.value.param == param
    assert not ModelConfig.objects.filter(engine_class="upstream").exists()


def test_an_address_ends_without_a_slash() -> None:
    assert url_check("http://box:8080/v1//") == "http://box:8080/v1"


def test_it_goes_with_its_model() -> None:
    config = add()
    config.delete()
    assert not Upstream.objects.exists()
