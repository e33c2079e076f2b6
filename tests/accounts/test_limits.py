"""Requests, answers and tokens of a caller, counted in the real Redis; time is moved."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from redis import Redis

from llamaweb.accounts.limits import counters
from llamaweb.accounts.limits.bounds import Allowance, Bounds, Left, duration
from llamaweb.accounts.limits.counters import Subject, reserve, settle, take_request
from llamaweb.lib.errors import BusyError, UnavailableError

HOUR_S = 3600.0


class Clock:
    """What is added to the server's time."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(counters, "offset_s", moved)
    return moved


@pytest.fixture
def subject() -> Subject:
    """Somebody whom no other test knows."""
    return Subject(user_id=secrets.randbits(48), key_id=1)


def nothing(_of: str) -> Mapping[int, int]:
    return {}


def ask(subject: Subject, bounds: Bounds) -> Allowance:
    allowance = Allowance()
    take_request(subject, bounds, allowance, "too many")
    return allowance


def keep(
    subject: Subject,
    bounds: Bounds,
    generation_id: str,
    tokens: int = 1,
    *,
    until_at: float = 4e9,
    is_answer: bool = True,
) -> Left:
    return reserve(
        subject,
        bounds,
        generation_id,
        tokens=tokens,
        until_at=until_at,
        is_answer=is_answer,
        history=nothing,
    )


def refusal(subject: Subject, bounds: Bounds, generation_id: str, tokens: int = 1) -> BusyError:
    with pytest.raises(BusyError) as caught:
        keep(subject, bounds, generation_id, tokens)
    return caught.value


def test_a_burst_passes_at_once_and_the_rest_at_the_rate(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(rate=60, burst=3)
    left = [ask(subject, bounds).requests for _ in range(3)]
    assert [(one.limit, one.remaining) for one in left] == [(3, 2), (3, 1), (3, 0)]
    assert 2.0 < left[-1].reset_s <= 3.0
    with pytest.raises(BusyError, match="too many") as caught:
        ask(subject, bounds)
    assert caught.value.reason == "key_rate"
    assert 0 < caught.value.retry_after_s <= 1.0
    clock.s += 1.0
    assert ask(subject, bounds).requests.remaining == 0
    with pytest.raises(BusyError):
        ask(subject, bounds)
    clock.s += 60.0
    assert ask(subject, bounds).requests.remaining == 2


def test_keys_and_networks_are_counted_apart(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(rate=1, burst=1)
    others = (
        Subject(subject.user_id, 2),
        Subject(network=f"net-{subject.user_id}"),
        Subject(network=f"net-{subject.user_id}x"),
    )
    for one in (subject, *others):
        ask(one, bounds)
        with pytest.raises(BusyError) as caught:
            ask(one, bounds)
        assert caught.value.reason == ("address_rate" if one.network else "key_rate")


def test_requests_side_by_side_pass_no_bound_together(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(rate=5, burst=5, user_minute=100)

    def one(number: int) -> bool:
        try:
            ask(subject, bounds)
            keep(subject, bounds, f"g{number}", 30)
        except BusyError:
            return False
        return True

    keep(subject, bounds, "g0", 30)
    with ThreadPoolExecutor(8) as pool:
        passed = list(pool.map(one, range(1, 17)))
    assert sum(passed) == 2  # of 100 tokens thirty are kept already


def test_answers_at_a_time_are_bounded(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(streams=2)
    keep(subject, bounds, "a")
    keep(subject, bounds, "a")  # again: nothing
    keep(subject, bounds, "b")
    keep(subject, bounds, "vectors", is_answer=False)
    error = refusal(subject, bounds, "c")
    assert error.reason == "concurrent_streams"
    assert "2 answers" in error.message
    assert settle(subject, bounds, "a", tokens=5)
    keep(subject, bounds, "c")


def test_what_was_kept_gives_way_to_what_was_used(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(user_minute=100)
    assert keep(subject, bounds, "a", 90).remaining == 10
    assert refusal(subject, bounds, "b", 20).reason == "user_tokens_minute"
    assert settle(subject, bounds, "a", tokens=15)
    assert not settle(subject, bounds, "a", tokens=15)  # once
    assert keep(subject, bounds, "b", 20) == Left(100, 65, pytest.approx(60.0, abs=11))


def test_a_reservation_whose_process_died_is_over_with_its_time(
    subject: Subject, clock: Clock
) -> None:
    bounds = Bounds(streams=1, user_minute=100)
    keep(subject, bounds, "dead", 100, until_at=counters_now() + 30)
    refusal(subject, bounds, "b")
    clock.s += 31
    keep(subject, bounds, "b", 50)
    assert not settle(subject, bounds, "dead", tokens=100)


def counters_now() -> float:
    """The server's clock."""
    with Redis.from_url(settings.REDIS_URL) as client:
        return float(client.time()[0])  # type: ignore[index]


def test_tokens_leave_the_minute_and_the_day(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(user_minute=100, user_day=150)
    for number, tokens in enumerate((60, 60)):
        keep(subject, bounds, f"g{number}", tokens)
        settle(subject, bounds, f"g{number}", tokens=tokens)
        if not number:
            error = refusal(subject, bounds, "x", 60)
            assert error.reason == "user_tokens_minute"
            assert 50 <= error.retry_after_s <= 71
            clock.s += error.retry_after_s + 0.1
    clock.s += 75.0
    error = refusal(subject, bounds, "x", 60)
    assert error.reason == "user_tokens_day"
    assert 22 * HOUR_S < error.retry_after_s <= 25 * HOUR_S
    clock.s += error.retry_after_s + 1
    keep(subject, bounds, "x", 60)


def test_a_key_has_bounds_of_its_own_inside_its_user_s(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(user_minute=100, key_minute=40)
    other = Subject(subject.user_id, 2)
    assert keep(subject, bounds, "a", 30).remaining == 10
    error = refusal(subject, bounds, "b", 20)
    assert (error.reason, error.message) == (
        "key_tokens_minute",
        "this API key has used up its 40 tokens a minute",
    )
    keep(other, bounds, "c", 40)
    assert refusal(Subject(subject.user_id, 3), bounds, "d", 40).reason == "user_tokens_minute"
    keep(Subject(subject.user_id), bounds, "session", 30)  # no key: only the user's


def test_more_than_the_limit_passes_when_nothing_else_counts(
    subject: Subject, clock: Clock
) -> None:
    bounds = Bounds(user_minute=100)
    assert keep(subject, bounds, "large", 5000).remaining == 0
    refusal(subject, bounds, "b")


def test_counters_that_redis_lost_are_made_of_the_ledger(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(user_day=100, key_day=60)
    asked: list[str] = []
    hour = int(counters_now()) // 3600

    def ledger(of: str) -> Mapping[int, int]:
        asked.append(of)
        return {"user": {hour - 2: 30, hour: 40, hour - 30: 1000}, "key": {hour: 40}}[of]

    def one(generation_id: str, tokens: int) -> Left:
        return reserve(
            subject,
            bounds,
            generation_id,
            tokens=tokens,
            until_at=4e9,
            is_answer=True,
            history=ledger,
        )

    with pytest.raises(BusyError) as caught:
        one("a", 31)
    assert caught.value.reason == "user_tokens_day"
    with pytest.raises(BusyError) as caught:
        one("a", 25)
    assert caught.value.reason == "key_tokens_day"
    one("a", 20)
    assert sorted(asked) == ["key", "user"]  # once each


def test_what_nothing_was_kept_for_counts_only_where_it_should(
    subject: Subject, clock: Clock
) -> None:
    bounds = Bounds(user_day=100)
    keep(subject, bounds, "a", 10)
    assert not settle(subject, bounds, "never kept", tokens=50)
    assert keep(subject, bounds, "a", 10).remaining == 90
    assert settle(subject, bounds, "a chat", tokens=50, always=True)
    assert not settle(subject, bounds, "a chat", tokens=50, always=True)  # once
    assert keep(subject, bounds, "a", 10).remaining == 40


def test_keys_carry_the_prefix_and_an_expiry_and_stay_small(subject: Subject, clock: Clock) -> None:
    bounds = Bounds(rate=1000, burst=1000, user_minute=10**9, key_day=10**9)
    for number in range(150):
        ask(subject, bounds)
        keep(subject, bounds, f"g{number}")
        settle(subject, bounds, f"g{number}", tokens=1)
        settle(subject, bounds, f"a chat {number}", tokens=1, always=True)
        clock.s += 10.0
    with Redis.from_url(settings.REDIS_URL, decode_responses=True) as client:
        found = [name for name in subject.keys if client.exists(name)]
        assert set(subject.keys[1:3]) <= set(found)
        for name in found:
            assert name.startswith(settings.REDIS_PREFIX)
            assert client.pttl(name) > 0
        assert client.hlen(subject.keys[1]) <= 66


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.2, "1s"), (59.9, "1m0s"), (60, "1m0s"), (125, "2m5s"), (7265, "2h1m5s")],
)
def test_durations_are_written_as_openai_does(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_without_redis_nobody_gets_through(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "REDIS_URL", "redis://127.0.0.1:1/0")
    bounds = Bounds(rate=1, burst=1, streams=1)
    with pytest.raises(UnavailableError):
        ask(subject, bounds)
    with pytest.raises(UnavailableError):
        keep(subject, bounds, "a")
