"""A request keeps no pooled connection while it lasts: on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import connection, connections, transaction
from django.test import AsyncRequestFactory

from inference.api import model_list
from llamaweb.accounts.auth import authenticate
from llamaweb.accounts.database import in_database
from llamaweb.accounts.models import Scope, User
from tests.factories import UserFactory, make_key

pytestmark = [pytest.mark.usefixtures("both_databases"), pytest.mark.django_db(transaction=True)]
POOL_WAIT_S = 2.0
DEADLINE_S = 30.0


def _forget_connection() -> None:
    connections["default"].close()
    del connections["default"]


@pytest.fixture
def small_pool(both_databases: str, db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """PostgreSQL: one connection for the whole process."""
    if both_databases == "sqlite":
        yield both_databases
        return
    usual = connections.databases["default"]
    pool = {"min_size": 1, "max_size": 1, "timeout": POOL_WAIT_S}
    _forget_connection()
    connections.databases["default"] = {**usual, "OPTIONS": {**usual["OPTIONS"], "pool": pool}}
    try:
        yield both_databases
    finally:
        connections["default"].close()
        connections["default"].close_pool()  # type: ignore[attr-defined]  # PostgreSQL's
        _forget_connection()
        connections.databases["default"] = usual


async def test_streams_that_last_keep_no_connection_from_others(small_pool: str) -> None:
    async with ThreadSensitiveContext():  # a thread of its own, as each request has
        key = await in_database(lambda: make_key(UserFactory.create()))()
    request = AsyncRequestFactory().get("/", headers={"Authorization": f"Bearer {key}"})
    have_begun: list[asyncio.Event] = [asyncio.Event() for _ in range(3)]
    may_end = asyncio.Event()

    async def stream(begun: asyncio.Event) -> Any:
        async with ThreadSensitiveContext():
            caller = await authenticate(request, Scope.INFERENCE)
            await model_list()
            begun.set()
            await may_end.wait()
            return caller

    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        streams = [group.create_task(stream(begun)) for begun in have_begun]
        for begun in have_begun:
            await begun.wait()  # the group cancels this when a stream fails
        may_end.set()
    assert len({task.result().user_id for task in streams}) == 1


async def test_it_goes_back_after_an_error_too(small_pool: str) -> None:
    def fail() -> None:
        User.objects.count()
        raise ValueError("no")

    for _ in range(2):
        async with ThreadSensitiveContext():
            with pytest.raises(ValueError, match="no"):
                await in_database(fail)()
            assert await _is_open() is (small_pool == "sqlite")


async def test_a_transaction_is_not_cut_off(small_pool: str) -> None:
    def enter() -> None:
        block = transaction.atomic()
        block.__enter__()
        blocks.append(block)

    blocks: list[Any] = []
    async with ThreadSensitiveContext():
        await sync_to_async(enter)()
        assert await in_database(User.objects.count)() == 0
        assert await _is_open()
        await sync_to_async(blocks[0].__exit__)(None, None, None)
        await sync_to_async(lambda: connection.close())()


async def _is_open() -> bool:
    return await sync_to_async(lambda: connection.connection is not None)()
