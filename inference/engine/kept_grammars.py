"""What became of the last grammars that were compiled, matchers and refusals alike."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from llguidance import LLMatcher

MAX_KEPT = 64
MAX_KEPT_CHARS = 512 * 1024  # of their texts: what a compiled one takes goes with its length


class Refusal(NamedTuple):
    """Why a grammar can't be followed, and the path of what is to blame."""

    message: str
    param: str | None


Outcome: TypeAlias = LLMatcher | Refusal


@dataclass(slots=True)
class _Kept:
    outcome: Outcome
    num_chars: int
    is_awaited: bool


class KeptGrammars:
    """The last ones, by key; safe from several threads.

    One that was checked is awaited by its sequence: it stays until that takes it, so that the
    engine's loop doesn't compile it again; only `MAX_KEPT` newer ones push it out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def get(
        self, key: Hashable, num_chars: int, make: Callable[[], Outcome], *, takes: bool
    ) -> Outcome:
        """What is kept under `key`, or what `make` says. `takes`: for a sequence, not a check."""
        with self._lock:
            kept = self._kept.get(key)
        if kept is None:
            kept = _Kept(make(), num_chars, is_awaited=False)  # others needn't wait for it
        with self._lock:
            kept.is_awaited = not takes and not isinstance(kept.outcome, Refusal)
            self._kept[key] = kept
            self._kept.move_to_end(key)
            self._make_room()
        return kept.outcome

    def num_chars(self) -> int:
        """Length of all texts that are kept."""
        with self._lock:
            return sum(kept.num_chars for kept in self._kept.values())

    def _make_room(self) -> None:
        room = MAX_KEPT_CHARS - sum(kept.num_chars for kept in self._kept.values())
        for key, kept in list(self._kept.items())[:-1]:
            if room < 0 and not kept.is_awaited:
                del self._kept[key]
                room += kept.num_chars
        while len(self._kept) > MAX_KEPT:
            free = (key for key, kept in self._kept.items() if not kept.is_awaited)
            del self._kept[next(free, next(iter(self._kept)))]
