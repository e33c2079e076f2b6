"""Models of engine classes of the installation's own: chosen by administrators, named by the
environment."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from inference.models import ModelConfig
from inference.registry.engine_classes import engine_model_add
from llamaweb.accounts.models import AuditEvent
from llamaweb.lib.errors import InvalidError

pytestmark = pytest.mark.django_db
BASE = "/admin/inference/modelconfig/"
MINE = "mine.engine.build"


def test_one_that_the_environment_names_is_added(admin: Client, settings: Any) -> None:
    settings.ENGINE_CLASSES, settings.ENGINE_SLOTS = (MINE,), 3
    assert MINE in admin.get(f"{BASE}add/").content.decode()
    form = {"source": MINE, "name": "own", "load": "on"}
    assert admin.post(f"{BASE}add/", form).status_code == 302
    config = ModelConfig.objects.get()
    assert (config.name, config.engine_class, config.file) == ("own", MINE, None)
    assert (config.num_slots, config.wanted) == (3, "loaded")
    event = AuditEvent.objects.get()
    assert (event.action, event.actor_name) == ("model_config.added", "root")
    assert event.detail["engine_class"] == MINE
    assert admin.get(f"{BASE}{config.pk}/change/").status_code == 200
    assert admin.get(BASE).status_code == 200


@pytest.mark.parametrize("name", ["os.system", "mine.engine.other", "mock"])
def test_no_other_code_is_added(admin: Client, settings: Any, name: str) -> None:
    settings.ENGINE_CLASSES = (MINE,)
    page = admin.post(f"{BASE}add/", {"source": name, "name": "own"}).content.decode()
    assert "the file can&#x27;t be read" in page  # it is taken for a file's name
    with pytest.raises(InvalidError, match="isn't among LLAMAWEB_ENGINE_CLASSES"):
        engine_model_add(name="own", engine_class=name)
    assert not ModelConfig.objects.exists()


def test_a_name_that_is_taken(admin: Client, settings: Any) -> None:
    settings.ENGINE_CLASSES = (MINE,)
    ModelConfig.objects.create(name="own", engine_class="mock")
    page = admin.post(f"{BASE}add/", {"source": MINE, "name": "own"}).content.decode()
    assert "there is a model of this name already" in page
    assert ModelConfig.objects.count() == 1
