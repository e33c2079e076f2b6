"""Which models there are, and which one a request means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inference.models import ModelConfig
from inference.registry import selectors, services
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.errors import NotFoundError, UnavailableError

pytestmark = [pytest.mark.usefixtures("both_databases"), pytest.mark.django_db]


def test_the_first_start_makes_the_default_model() -> None:
    config = services.starter_config_sync()
    assert (config.name, config.is_default, config.engine_class) == ("mock", True, "mock")
    assert AuditEvent.objects.filter(action="model_config.synced").count() == 1


def test_a_second_start_changes_nothing() -> None:
    before = services.starter_config_sync()
    after = services.starter_config_sync()
    assert (after.pk, after.updated_at) == (before.pk, before.updated_at)
    assert AuditEvent.objects.filter(action="model_config.synced").count() == 1


def test_the_environment_changes_the_same_config(settings: Any) -> None:
    first = services.starter_config_sync()
    settings.ENGINE, settings.MODEL = "llama", Path("/models/My Model (v2).Q4_K_M.gguf")
    second = services.starter_config_sync()
    assert second.pk == first.pk
    assert (second.name, second.engine_class) == ("My-Model-v2-.Q4_K_M", "llama")
    assert second.model_path == "/models/My Model (v2).Q4_K_M.gguf"


def test_an_administrators_default_stays(settings: Any) -> None:
    ModelConfig.objects.create(name="chosen", is_default=True)
    assert not services.starter_config_sync().is_default


@pytest.mark.parametrize("name", [None, "", "default"])
def test_no_name_means_the_default(name: str | None) -> None:
    ModelConfig.objects.create(name="aaa")
    services.starter_config_sync()
    assert selectors.model_resolve(name).name == "mock"


def test_names_are_exact_and_disabled_models_absent() -> None:
    services.starter_config_sync()
    ModelConfig.objects.create(name="off", is_enabled=False)
    assert selectors.model_resolve("mock").name == "mock"
    for name in ("off", "nobody", "x" * 10_000):
        with pytest.raises(NotFoundError, match="does not exist"):
            selectors.model_resolve(name)
    assert [info.name for info in selectors.model_list()] == ["mock"]


@pytest.mark.parametrize("name", ["a\0b", "\0", "\0default", "x" * 129, "\0" * 200])
def test_what_can_be_no_name_is_absent_without_a_query(
    name: str, django_assert_num_queries: Any
) -> None:
    services.starter_config_sync()
    with django_assert_num_queries(0), pytest.raises(NotFoundError, match="does not exist"):
        selectors.model_resolve(name)


def test_without_any_model_the_reason_is_said() -> None:
    with pytest.raises(UnavailableError, match="no model is configured"):
        selectors.model_resolve(None)
