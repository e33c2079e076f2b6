"""What became of the last grammars that were compiled, matchers and refusals alike."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import NamedTuple, TypeAlias

from llguidance import LLMatcher

MAX_KEPT = 64
MAX_KEPT_CHARS = 512 * 1024  # of their texts: what a compiled one takes goes with its length


class Refusal(NamedTuple):
    """Why a grammar can't be followed, and the path of what is to blame."""

    message: str
    param: str | None


Outcome: TypeAlias = LLMatcher | Refusal


class KeptGrammars:
    """The last ones, by key; safe from several threads. A sequence brings its own with it, so that
    nothing depends on what is still here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[Outcome, int]] = OrderedDict()
        self._making: dict[Hashable, Future[Outcome]] = {}
        self._num_chars = 0

    def get(self, key: Hashable, num_chars: int, make: Callable[[], Outcome]) -> Outcome:
        """What is kept under `key`, or what `make` says. Who asks for the same meanwhile waits for
        that, as long as `make` itself may take, and hears its exception too; others don't wait."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
            made = self._making.get(key)
            if made is None:
                mine = self._making[key] = Future()
        if made is not None:
            return made.result()
        try:
            outcome = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._keep(key, outcome, num_chars)
        mine.set_result(outcome)
        return outcome

    def _keep(self, key: Hashable, outcome: Outcome, num_chars: int) -> None:
        self._num_chars += num_chars
        self._kept[key] = outcome, num_chars
        while len(self._kept) > MAX_KEPT or self._num_chars > MAX_KEPT_CHARS:
            _, (_, freed) = self._kept.popitem(last=False)
            self._num_chars -= freed

    def num_chars(self) -> int:
        """Length of all texts that are kept."""
        with self._lock:
            return self._num_chars
