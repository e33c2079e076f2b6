"""Engines are told what to forget when a conversation or an account goes."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model

from inference import api
from inference.queues.contract import Beat, CachePurge, Queue
from llamaweb.lib.errors import UnavailableError
from tests.inference.conftest import owned

pytestmark = pytest.mark.django_db


@pytest.fixture
def mark(queue: Queue, alice: Any) -> str:
    """Of an engine of a model that was asked something once."""
    queue.submit(owned(alice))
    return queue.beat("mock", Beat("e", "ready")).mark


def heard(queue: Queue, mark: str) -> tuple[CachePurge, ...]:
    return queue.beat("mock", Beat("e", "ready", mark=mark)).purges


def test_an_order_reaches_the_engines(queue: Queue, mark: str) -> None:
    assert api.cache_forget_now(conversations=("c1", "c2"))
    assert heard(queue, mark) == (CachePurge(conversations=("c1", "c2")),)
    assert api.cache_forget_now(owner_key="user:7")
    assert heard(queue, mark)[1:] == (CachePurge(owner_key="user:7"),)


def test_a_removed_account_is_forgotten(
    queue: Queue, mark: str, bob: Any, django_capture_on_commit_callbacks: Any
) -> None:
    owner_key = f"user:{bob.pk}"
    with django_capture_on_commit_callbacks(execute=True):
        get_user_model().objects.filter(pk=bob.pk).delete()
    assert heard(queue, mark) == (CachePurge(owner_key=owner_key),)


def test_without_redis_a_deletion_goes_on(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*_args: Any) -> None:
        raise UnavailableError("redis is away")

    monkeypatch.setattr(type(queue), "models", down)
    assert not api.cache_forget_now(conversations=("c1",))
