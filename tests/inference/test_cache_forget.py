"""Engines are told of deleted conversations, where there are engines."""

from __future__ import annotations

from typing import Any

import pytest

from inference import api
from inference.models import ModelConfig
from inference.protocol.requests import ControlRequest
from inference.queues.contract import Beat, Queue
from llamaweb.lib.errors import UnavailableError

pytestmark = pytest.mark.django_db


def test_an_order_reaches_the_engine(queue: Queue) -> None:
    ModelConfig.objects.create(name="mock", is_default=True, engine_class="mock")
    assert api.cache_forget_now(("c1",)) == 0  # nobody holds anything
    queue.beat("mock", Beat("e", "ready"))
    assert api.cache_forget_now(("c1", "c2")) == 1
    (claim,) = queue.claim("mock", "e", slots=1, idle=True)
    assert isinstance(claim.request, ControlRequest)
    assert (claim.request.action, claim.request.conversations) == ("clear_cache", ("c1", "c2"))


def test_without_redis_a_deletion_goes_on(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    ModelConfig.objects.create(name="mock", is_default=True, engine_class="mock")

    def down(*_args: Any) -> None:
        raise UnavailableError("redis is away")

    monkeypatch.setattr(type(queue), "engines", down)
    assert api.cache_forget_now(("c1",)) == 0
