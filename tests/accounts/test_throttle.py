"""Moving windows in Redis."""

from __future__ import annotations

import pytest
from django.conf import settings
from redis import Redis

from llamaweb.accounts import throttle
from llamaweb.accounts.throttle import Throttle
from llamaweb.lib.errors import BusyError, UnavailableError
from llamaweb.lib.ids import new_id


@pytest.fixture
def twice() -> Throttle:
    """Two acts a minute; a kind of its own, so that tests don't meet."""
    return Throttle(new_id(), 2, "too often")


async def test_take_counts_until_the_limit(twice: Throttle) -> None:
    await twice.atake("alice")
    await twice.atake("alice")
    with pytest.raises(BusyError, match="too often") as caught:
        await twice.atake("alice")
    assert caught.value.reason == twice.kind
    assert 1 <= caught.value.retry_after_s <= 60


async def test_subjects_are_counted_apart(twice: Throttle) -> None:
    for subject in (("alice",), ("bob",), ("alice", "bob"), ("alic", "ebob")):
        await twice.ahit(*subject)
        await twice.ahit(*subject)
        with pytest.raises(BusyError):
            await twice.acheck(*subject)
    await twice.acheck("carol")


def test_check_does_not_count(twice: Throttle) -> None:
    for _ in range(5):
        twice.check("alice")
    twice.hit("alice")
    twice.check("alice")
    twice.hit("alice")
    with pytest.raises(BusyError):
        twice.check("alice")


async def test_zero_means_no_limit() -> None:
    free = Throttle("free", 0, "never")
    for _ in range(5):
        await free.atake("alice")


async def test_keys_carry_the_prefix_an_expiry_and_no_name(
    twice: Throttle, redis_server: str
) -> None:
    await twice.ahit("alice@example.org")
    with Redis.from_url(redis_server, decode_responses=True) as client:
        found = list(client.scan_iter(match=f"*{twice.kind}*"))
        assert len(found) == 1
        assert found[0].startswith(settings.REDIS_PREFIX)
        assert "alice" not in found[0]
        assert 0 < client.ttl(found[0]) <= 60


async def test_without_redis_nobody_may_guess(
    twice: Throttle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setattr(throttle, "_by_loop", {})
    for act in (twice.acheck, twice.ahit, twice.atake):
        with pytest.raises(UnavailableError):
            await act("alice")
    throttle._sync_limiter.cache_clear()
    try:
        for plain in (twice.check, twice.hit):
            with pytest.raises(UnavailableError):
                plain("alice")
    finally:
        throttle._sync_limiter.cache_clear()
