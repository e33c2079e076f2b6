"""Which model answers in a chat: one that the person may use, with its own sampling."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conversations import services
from conversations.parts import TextPart
from inference.models import Generation, ModelConfig
from inference.registry.model_access import model_access_set
from llamaweb.lib.errors import NotFoundError
from tests.conversations.driving import Engine

pytestmark = pytest.mark.django_db
HELLO = (TextPart(text="Hello"),)


@pytest.fixture
def secret(engine: Engine, alice: Any) -> ModelConfig:
    config = ModelConfig.objects.create(
        name="secret", engine_class="mock", aliases=["s"], sampling={"temperature": 0.25}
    )
    model_access_set(config=config, is_restricted=True, users=[alice])
    return config


@pytest.mark.parametrize("name", ["secret", "s"])
def test_whoever_may_use_it_is_answered(secret: ModelConfig, alice: Any, name: str) -> None:
    turn = services.turn_start(user=alice, conversation_id=None, parts=HELLO, model_name=name)
    assert turn.answer.model_name == "secret"
    request = json.loads(Generation.objects.get(id=turn.generation_id).request)
    assert request["sampling"]["temperature"] == 0.25


@pytest.mark.parametrize("name", ["secret", "s"])
def test_nobody_else_knows_of_it(secret: ModelConfig, carol: Any, name: str) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        services.turn_start(user=carol, conversation_id=None, parts=HELLO, model_name=name)
    with pytest.raises(NotFoundError, match="does not exist"):
        services.conversation_create(user=carol, model_name=name)
    assert not Generation.objects.exists()


def test_who_loses_it_gets_no_more_answers(secret: ModelConfig, alice: Any) -> None:
    conversation = services.conversation_create(user=alice, model_name="secret")
    model_access_set(config=secret, is_restricted=True)
    with pytest.raises(NotFoundError, match="does not exist"):
        services.turn_start(user=alice, conversation_id=conversation.id, parts=HELLO)
