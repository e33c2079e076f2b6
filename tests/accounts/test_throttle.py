"""Moving windows in Redis."""

from __future__ import annotations

import pytest
from django.conf import settings
from redis import Redis

from llamaweb.accounts.throttle import Throttle, network
from llamaweb.lib.errors import BusyError, UnavailableError
from llamaweb.lib.ids import new_id


@pytest.fixture
def twice() -> Throttle:
    """Two acts a minute; a kind of its own, so that tests don't meet."""
    return Throttle(new_id(), 2, "too often")


def test_take_counts_until_the_limit(twice: Throttle) -> None:
    twice.take("alice")
    twice.take("alice")
    with pytest.raises(BusyError, match="too often") as caught:
        twice.take("alice")
    assert caught.value.reason == twice.kind
    assert 1 <= caught.value.retry_after_s <= 60


def test_subjects_are_counted_apart(twice: Throttle) -> None:
    for subject in (("alice",), ("bob",), ("alice", "bob"), ("alic", "ebob")):
        twice.take(*subject)
        twice.take(*subject)
        with pytest.raises(BusyError):
            twice.take(*subject)
    twice.take("carol")


def test_what_is_given_back_can_be_taken_again(twice: Throttle) -> None:
    twice.take("alice")
    for _ in range(5):
        twice.take("alice")
        twice.give_back("alice")
    twice.take("alice")
    with pytest.raises(BusyError):
        twice.take("alice")


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:0:0:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("", "", True),
    ],
)
def test_what_one_caller_holds(one: str, other: str, is_same: bool) -> None:
    assert (network(one) == network(other)) is is_same


def test_zero_means_no_limit() -> None:
    free = Throttle("free", 0, "never")
    for _ in range(5):
        free.take("alice")
    free.give_back("alice")


def test_keys_carry_the_prefix_an_expiry_and_no_name(twice: Throttle, redis_server: str) -> None:
    twice.take("alice@example.org")
    with Redis.from_url(redis_server, decode_responses=True) as client:
        found = list(client.scan_iter(match=f"*{twice.kind}*"))
        assert len(found) == 1
        assert found[0].startswith(settings.REDIS_PREFIX)
        assert "alice" not in found[0]
        assert 0 < client.ttl(found[0]) <= 60


def test_counts_stand_under_the_prefix_of_the_settings(
    twice: Throttle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):  # the limit of one prefix says nothing about the next
        monkeypatch.setattr(settings, "REDIS_PREFIX", f"{new_id()}:")
        twice.take("alice")
        twice.take("alice")
        with pytest.raises(BusyError):
            twice.take("alice")


def test_without_redis_nobody_may_guess(twice: Throttle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    for act in (twice.take, twice.give_back):
        with pytest.raises(UnavailableError):
            act("alice")
