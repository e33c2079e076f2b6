"""What is compiled is compiled once, however many ask for it at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from inference.engine.guidance import vocabulary_of
from inference.engine.kept_grammars import KeptGrammars, Refusal
from inference.engine.mock_tokenizer import MockTokenizer
from llamaweb.lib.errors import FailedError
from tests.stack import wait_for

NUM_ASKING = 4  # choices of one request
WAIT_S = 20.0
NO = Refusal("no", None)


class Slow:
    """Work that whoever asks first is at until everybody has asked."""

    def __init__(self) -> None:
        self.num_times = 0
        self._has_begun = threading.Event()
        self._goes_on = threading.Event()

    def work(self) -> None:
        """Called by what is asked for."""
        self.num_times += 1
        self._has_begun.set()
        assert self._goes_on.wait(WAIT_S)

    def asked(
        self, ask: Callable[[], Any], meanwhile: Callable[[], object] = lambda: None
    ) -> list[Future[Any]]:
        """What each of those hears who ask; `meanwhile` is called while all of them wait."""
        with ThreadPoolExecutor(NUM_ASKING) as pool:
            asking = [pool.submit(ask)]
            try:
                assert self._has_begun.wait(WAIT_S)
                asking += [pool.submit(ask) for _ in range(NUM_ASKING - 1)]
                wait_for("all of them", lambda: all(map(Future.running, asking)), WAIT_S)
                meanwhile()
            finally:
                self._goes_on.set()
        return asking


def test_the_same_is_made_once_and_others_do_not_wait_for_it() -> None:
    kept, slow, other = KeptGrammars(), Slow(), Refusal("another", None)

    def make() -> Refusal:
        slow.work()
        return NO

    def meanwhile() -> None:
        assert kept.get("other", 1, lambda: other) is other

    asked = slow.asked(lambda: kept.get("same", 1, make), meanwhile)
    assert [each.result() for each in asked] == [NO] * NUM_ASKING
    assert (slow.num_times, kept.num_chars()) == (1, 2)


def test_a_failure_is_everybodys_who_waits_and_nothing_to_keep() -> None:
    kept, slow = KeptGrammars(), Slow()

    def fail() -> Refusal:
        slow.work()
        raise FailedError("no child")

    for each in slow.asked(lambda: kept.get("same", 1, fail)):
        with pytest.raises(FailedError):
            each.result()
    assert slow.num_times == 1
    assert kept.get("same", 1, lambda: NO) is NO


def test_a_vocabulary_is_walked_once() -> None:
    slow = Slow()

    class Walked(MockTokenizer):
        def piece(self, token_id: int, *, special: bool = False) -> bytes:
            if token_id == 0:
                slow.work()
            return super().piece(token_id, special=special)

    tokenizer = Walked()
    first, *others = (each.result() for each in slow.asked(lambda: vocabulary_of(tokenizer)))
    assert slow.num_times == 1
    assert all(each is first for each in others)
