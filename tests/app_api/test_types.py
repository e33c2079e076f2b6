"""The front end's types are those of the server's schemas."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from pydantic import BaseModel

from conversations import contracts
from conversations.edge import schemas
from llamaweb.app_schema import MODULES, TYPES_FILE, app_schema, classes, types_text


def test_the_committed_types_are_fresh() -> None:
    committed = (Path(settings.ROOT) / TYPES_FILE).read_text()
    assert committed == types_text(), f"{TYPES_FILE} is stale: run `make types`"


def test_every_class_is_a_component() -> None:
    components = app_schema()["components"]["schemas"]
    for module in MODULES:
        found = classes(module)
        assert found
        assert {item.__name__ for item in found} <= set(components)
    members = components["ServerFrame"]["oneOf"]
    assert {"$ref": "#/components/schemas/StreamFrame"} in members


@pytest.mark.parametrize(
    ("view", "wire"),
    [
        (contracts.ConversationView, schemas.ConversationOut),
        (contracts.MessageView, schemas.MessageOut),
        (contracts.TurnView, schemas.TurnOut),
    ],
)
def test_what_readers_get_goes_over_the_wire(view: Any, wire: type[BaseModel]) -> None:
    """The mapper goes by names: a field that one side lacks would be lost silently."""
    assert {field.name for field in dataclasses.fields(view)} == set(wire.model_fields)
