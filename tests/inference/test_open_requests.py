"""A running request ends within a second when whoever asked may not have it answered any more, and
what it used takes the place of what was reserved."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from inference import api
from inference.models import ModelConfig
from inference.protocol.accounts import Account
from inference.protocol.events import Cancelled, Finished, Started, Usage
from inference.protocol.params import Limits
from inference.queues.contract import Append, Position, Queue, QueueConfig
from inference.registry import quotas, standing
from llamaweb.accounts.database import in_database
from llamaweb.accounts.limits.bounds import Allowance, allowance_here
from llamaweb.accounts.models import ApiKey
from llamaweb.accounts.services import api_key_create, api_key_revoke
from llamaweb.lib.errors import BusyError
from tests.inference.conftest import owned
from tests.until import until

pytestmark = pytest.mark.django_db(transaction=True)
WAIT_S = 20.0


@pytest.fixture
def model(db: None) -> ModelConfig:
    return ModelConfig.objects.create(name="mock", is_default=True)


@pytest.fixture
def key(alice: Any, model: ModelConfig) -> ApiKey:
    return api_key_create(user=alice, name="k", model_names=["mock", "other"])[0]


@pytest.fixture
async def _closing() -> AsyncIterator[None]:
    yield
    await api.streams_close()


def revoke(key: ApiKey) -> None:
    api_key_revoke(key=key)


@pytest.mark.usefixtures("_closing")
@pytest.mark.parametrize("keep", [False, True])
async def test_a_running_answer_is_ordered_to_end(
    queue: Queue, key: ApiKey, keep: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    real = standing.standings_lost

    def counted(asked: Any) -> Any:
        looks.append(len(asked))
        return real(asked)

    monkeypatch.setattr("inference.open_requests.standings_lost", counted)
    pauses = pauses_of("open-requests", monkeypatch)
    account = Account(key.user.pk, key.pk, "openai").text()
    request = owned(key.user, account=account, keep=keep, on_finish=None)
    await api.generation_submit(request)
    (claim,) = queue.claim("mock", "e", slots=1, idle=True)
    start = Append(request.generation_id, claim.epoch, claim.incarnation, 0, (Started(3, 0),))
    queue.append("mock", "e", [start])
    await until(lambda: len(looks) >= 2)
    assert cancelled(queue, request) is None
    await in_database(revoke)(key)
    await until(lambda: cancelled(queue, request) == "owner")
    # An engine that is never woken still hears of a cancel with its next heartbeat.
    assert max(pauses) + QueueConfig().heartbeat_s <= 1.0


@pytest.mark.usefixtures("_closing")
async def test_a_waiting_request_ends_at_once(queue: Queue, key: ApiKey) -> None:
    account = Account(key.user.pk, key.pk, "openai").text()
    request = owned(key.user, account=account, keep=False, on_finish=None)
    await api.generation_submit(request)
    await in_database(revoke)(key)
    ends = [event async for event in events_of(request) if isinstance(event, Cancelled)]
    assert ends == [Cancelled("owner")]


@pytest.mark.usefixtures("_closing")
async def test_what_was_used_is_settled_as_soon_as_the_end_is_read(
    queue: Queue, key: ApiKey, settings: Any
) -> None:
    settings.USER_STREAMS = 1
    settings.USER_TOKENS_DAY = 1000
    allowance = Allowance()
    allowance_here.set(allowance)
    account = Account(key.user.pk, key.pk, "openai").text()

    def asked() -> Any:
        limits = Limits(max_tokens=500)
        return owned(key.user, account=account, keep=False, on_finish=None, limits=limits)

    first = asked()
    await api.generation_submit(first)
    assert (allowance.tokens.limit, allowance.tokens.remaining) == (1000, 499)
    with pytest.raises(BusyError) as caught:
        await api.generation_submit(asked())
    assert caught.value.reason == "concurrent_streams"
    (claim,) = queue.claim("mock", "e", slots=1, idle=True)
    end = Finished("stop", Usage(prompt_tokens=20, completion_tokens=30))
    identity = (first.generation_id, claim.epoch, claim.incarnation)
    queue.append("mock", "e", [Append(*identity, 0, (Started(20, 0), end))])
    assert [event async for event in events_of(first)][-1] == end

    async def submitted() -> bool:
        try:
            await api.generation_submit(asked())
        except BusyError:
            return False
        return True

    await until_true(submitted)
    assert allowance.tokens.remaining == 1000 - 50 - 501


@pytest.mark.usefixtures("_closing")
async def test_a_refusal_of_the_queue_gives_back_what_was_reserved(
    queue: Queue, key: ApiKey, settings: Any
) -> None:
    settings.USER_STREAMS = 1
    account = Account(key.user.pk, key.pk, "openai").text()
    huge = owned(key.user, "x" * 40_000_000, account=account, keep=False, on_finish=None)
    with pytest.raises(BusyError) as caught:
        await api.generation_submit(huge)
    assert caught.value.reason == "owner_queue_bytes"

    async def submitted() -> bool:
        try:
            await api.generation_submit(owned(key.user, account=account, on_finish=None))
        except BusyError:
            return False
        return True

    await until_true(submitted)


@pytest.mark.usefixtures("_closing", "queue")
async def test_who_leaves_while_it_is_reserved_keeps_nothing(
    key: ApiKey, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.USER_STREAMS = 1
    account = Account(key.user.pk, key.pk, "openai").text()
    began, goes_on = threading.Event(), threading.Event()
    reserve = quotas.quota_reserve

    def slow(*args: Any) -> None:
        reserve(*args)
        began.set()
        assert goes_on.wait(WAIT_S)

    with monkeypatch.context() as patched:
        patched.setattr(quotas, "quota_reserve", slow)
        request = owned(key.user, account=account, keep=False, on_finish=None)
        asking = asyncio.create_task(api.generation_submit(request))
        await until(began.is_set)
        asking.cancel()
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await asking

    async def submitted() -> bool:
        try:
            await api.generation_submit(owned(key.user, account=account, on_finish=None))
        except BusyError:
            return False
        return True

    await until_true(submitted)


def pauses_of(name: str, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the task of that name wanted to sleep, from now on."""
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(delay: float, *args: Any) -> Any:
        task = asyncio.current_task()
        if task is not None and task.get_name() == name:
            pauses.append(delay)
        return await real(delay, *args)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return pauses


def cancelled(queue: Queue, request: Any) -> str | None:
    status = queue.status("mock", request.generation_id)
    assert status is not None
    return status.cancel_requested


async def events_of(request: Any) -> AsyncIterator[Any]:
    async for item in api.generation_events(request.model, request.generation_id):
        if not isinstance(item, Position):
            for entry in item.entries:
                yield entry.event


async def until_true(ask: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not await ask():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
