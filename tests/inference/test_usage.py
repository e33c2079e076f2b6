"""What was computed for whom: one record a generation, whatever died; quotas follow."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from inference.models import UsageRecord
from inference.protocol.accounts import Account
from inference.protocol.events import Cancelled, Failed, Finished, Started, Terminal, Usage
from inference.protocol.params import Limits
from inference.protocol.requests import (
    ChatPrompt,
    EmbedRequest,
    InfillFile,
    InfillPrompt,
    Message,
    Prompt,
    RerankRequest,
    TextPrompt,
    TokenPrompt,
    ToolCall,
)
from inference.queues.contract import Append, Queue
from inference.registry import quotas, usage
from llamaweb.accounts.limits.counters import Subject
from llamaweb.lib.errors import BusyError
from tests.inference.conftest import owned

pytestmark = [
    pytest.mark.usefixtures("both_databases"),
    pytest.mark.django_db(transaction=True),
]
USED = Usage(prompt_tokens=30, completion_tokens=12, cached_tokens=8)


def asked(user: Any, *, key_id: int = 3, family: str = "openai", **values: Any) -> Any:
    account = Account(user.pk, key_id, family).text()
    return owned(user, account=account, on_finish=None, **values)


def run(queue: Queue, *requests: Any, end: Terminal | None = None) -> None:
    """Submit, and be the engine that ends them."""
    end = end or Finished("stop", USED)
    for request in requests:
        queue.submit(request)
    for claim in queue.claim("mock", "e", slots=99, idle=True):
        identity = (claim.request.generation_id, claim.epoch, claim.incarnation)
        assert queue.append("mock", "e", [Append(*identity, 0, (Started(30, 8), end))]) == ("ok",)


def test_a_record_says_what_was_used_and_holds_no_text(queue: Queue, alice: Any) -> None:
    request = asked(alice, text="a private question")
    run(queue, request)
    assert usage.usage_collect() == 1
    record = UsageRecord.objects.get()
    assert (record.user_id, record.key_id, record.model_name) == (alice.pk, 3, "mock")
    assert (record.generation_id, record.family) == (request.generation_id, "openai")
    tokens = record.prompt_tokens, record.cached_tokens, record.completion_tokens
    assert (tokens, record.end) == ((30, 8, 12), "stop")
    assert abs(record.at - timezone.now()) < dt.timedelta(minutes=1)
    assert "private" not in str(vars(record))


@pytest.mark.parametrize(
    ("end", "name"),
    [
        (Finished("tool_calls", USED), "tool_calls"),
        (Cancelled("user", USED), "cancelled"),
        (Failed("engine_failed", "no", usage=USED), "engine_failed"),
    ],
)
def test_every_end_is_named(queue: Queue, alice: Any, end: Terminal, name: str) -> None:
    run(queue, asked(alice), end=end)
    usage.usage_collect()
    assert UsageRecord.objects.get().end == name


def test_a_job_that_dies_in_the_middle_writes_nothing_twice(
    queue: Queue, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(queue, asked(alice), asked(alice))

    def die(*_args: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(queue), "usage_ack", die)
        with pytest.raises(KeyboardInterrupt):
            usage.usage_collect()
    assert UsageRecord.objects.count() == 2
    run(queue, asked(alice))
    assert usage.usage_collect() == 1
    assert UsageRecord.objects.count() == 3
    assert usage.usage_collect() == 0


@pytest.mark.parametrize("keep_days", [0, 7])
@pytest.mark.parametrize("step", ["bulk_create", "_settle", "usage_ack"])
def test_a_job_that_dies_between_two_steps_counts_everything_once(
    queue: Queue, alice: Any, settings: Any, monkeypatch: pytest.MonkeyPatch,
    step: str, keep_days: int,
) -> None:  # fmt: skip
    settings.USER_TOKENS_DAY = 200
    settings.USAGE_KEEP_DAYS = keep_days
    account = Account(alice.pk, 3, "openai")
    request = asked(alice, limits=Limits(max_tokens=80))
    quotas.quota_reserve(account, request)
    run(queue, request, asked(alice, key_id=0, family="chat"))

    def die(*_args: Any, **_kwargs: Any) -> None:
        raise KeyboardInterrupt

    owner = {"_settle": usage, "usage_ack": type(queue), "bulk_create": UsageRecord.objects}[step]
    if keep_days or step != "bulk_create":
        with monkeypatch.context() as patched:
            patched.setattr(owner, step, die)
            with pytest.raises(KeyboardInterrupt):
                usage.usage_collect()
    for _ in range(2):
        usage.usage_collect()
    with pytest.raises(BusyError):  # 84 of 200 are used
        quotas.quota_reserve(account, asked(alice, limits=Limits(max_tokens=120)))
    quotas.quota_reserve(account, asked(alice, limits=Limits(max_tokens=110)))


def test_nobody_s_requests_and_unreadable_accounts_are_in_no_ledger(
    queue: Queue, alice: Any
) -> None:
    run(queue, owned(alice), owned(alice, account="somebody"))
    assert usage.usage_collect() == 0
    assert queue.usage("mock") == ()


def test_the_ledger_goes_back_as_far_as_it_should(queue: Queue, alice: Any, settings: Any) -> None:
    run(queue, *(asked(alice) for _ in range(3)))
    usage.usage_collect()
    old = UsageRecord.objects.first()
    assert old is not None
    UsageRecord.objects.filter(pk=old.pk).update(at=timezone.now() - dt.timedelta(days=8))
    settings.USAGE_KEEP_DAYS = 7
    assert usage.usage_purge() == 1
    assert UsageRecord.objects.count() == 2
    settings.USAGE_KEEP_DAYS = 0
    run(queue, asked(alice))
    usage.usage_collect()
    assert UsageRecord.objects.count() == 2


def test_a_purge_leaves_nothing_that_is_too_old(
    queue: Queue, alice: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(queue, *(asked(alice) for _ in range(5)))
    usage.usage_collect()
    UsageRecord.objects.update(at=timezone.now() - dt.timedelta(days=8))
    settings.USAGE_KEEP_DAYS = 7
    monkeypatch.setattr(usage, "PURGE_ROWS", 2)
    with monkeypatch.context() as patched:
        patched.setattr(usage, "PURGE_BUDGET_S", -1.0)
        assert usage.usage_purge() == 2  # and the next run goes on
    assert usage.usage_purge() == 3
    assert not UsageRecord.objects.exists()


def test_hours_of_a_user_and_of_one_key(queue: Queue, alice: Any, bob: Any) -> None:
    run(queue, asked(alice), asked(alice, key_id=4), asked(bob, key_id=5))
    usage.usage_collect()
    subject = Subject(alice.pk, 3)
    assert sum(usage.usage_hours(subject, "user").values()) == 84
    assert sum(usage.usage_hours(subject, "key").values()) == 42
    (hour,) = usage.usage_hours(subject, "key")
    assert abs(hour - timezone.now().timestamp() / 3600) < 2
    UsageRecord.objects.update(at=timezone.now() - dt.timedelta(hours=25))
    assert usage.usage_hours(subject, "user") == {}


def test_what_a_killed_web_process_reserved_is_settled_by_the_job(
    queue: Queue, alice: Any, settings: Any
) -> None:
    settings.USER_TOKENS_DAY = 100
    request = asked(alice, limits=Limits(max_tokens=80))
    account = Account.read(request.account)
    assert account is not None
    quotas.quota_reserve(account, request)
    later = asked(alice, limits=Limits(max_tokens=50))
    with pytest.raises(BusyError) as caught:
        quotas.quota_reserve(account, later)
    assert caught.value.reason == "user_tokens_day"
    run(queue, request)
    usage.usage_collect()
    usage.usage_collect()
    quotas.quota_reserve(account, later)  # 42 of 100 are used, once
    with pytest.raises(BusyError):
        quotas.quota_reserve(account, asked(alice, limits=Limits(max_tokens=50)))


def test_chats_count_though_nothing_is_reserved_for_them(
    queue: Queue, alice: Any, settings: Any
) -> None:
    settings.USER_TOKENS_DAY = 100
    account = Account(alice.pk, 3, "openai")
    small = asked(alice, limits=Limits(max_tokens=1))
    quotas.quota_reserve(account, small)
    quotas.quota_settle(account, small.generation_id, 1)
    run(queue, asked(alice, key_id=0, family="chat"), asked(alice, key_id=0, family="chat"))
    usage.usage_collect()
    with pytest.raises(BusyError):
        quotas.quota_reserve(account, asked(alice, limits=Limits(max_tokens=50)))
    quotas.quota_reserve(account, asked(alice, limits=Limits(max_tokens=5)))


def test_a_redis_that_forgot_is_told_by_the_ledger(queue: Queue, alice: Any, settings: Any) -> None:
    run(queue, *(asked(alice) for _ in range(2)))
    usage.usage_collect()
    settings.USER_TOKENS_DAY = 100  # nobody has counted until now
    account = Account(alice.pk, 3, "openai")
    with pytest.raises(BusyError):
        quotas.quota_reserve(account, asked(alice, limits=Limits(max_tokens=30)))


def test_how_many_tokens_are_expected(alice: Any, settings: Any) -> None:
    short = asked(alice, text="x" * 40, limits=Limits(max_tokens=100))
    assert quotas.expected_tokens(short) == 111
    open_end = replace(short, limits=Limits())
    assert quotas.expected_tokens(open_end) == 11 + quotas.USUAL_ANSWER
    settings.MAX_REQUEST_TOKENS = 50
    assert quotas.expected_tokens(open_end) == 61
    base: Any = ("e", "mock", "user:1", 1.0, 2.0)
    embed = EmbedRequest(*base, inputs=(TextPrompt("x" * 8), TokenPrompt((1, 2, 3))))
    assert quotas.expected_tokens(embed) == 6
    rerank = RerankRequest(*base, query="x" * 8, documents=("x" * 8, "x" * 4))
    assert quotas.expected_tokens(rerank) == 5 + 4


@pytest.mark.parametrize(
    "prompt",
    [
        ChatPrompt((Message("user", "x" * 400),)),
        ChatPrompt((Message("assistant", reasoning="x" * 400),)),
        ChatPrompt((Message("assistant", tool_calls=(ToolCall("", "", "x" * 400),)),)),
        ChatPrompt((Message("tool", name="x" * 200, tool_call_id="x" * 200),)),
        ChatPrompt((), tools_json="x" * 400),
        ChatPrompt((), template_kwargs_json="x" * 400),
        InfillPrompt("x" * 100, "x" * 100, "x" * 100, (InfillFile("x" * 50, "x" * 50),)),
    ],
)
def test_all_that_a_prompt_says_is_expected(alice: Any, prompt: Prompt) -> None:
    request = replace(asked(alice, limits=Limits(max_tokens=1)), prompt=prompt)
    assert quotas.expected_tokens(request) == 101 + 1
