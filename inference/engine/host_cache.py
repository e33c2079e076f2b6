"""The prompt cache's second tier: states of sequences in ordinary memory, within a byte budget.

Eviction is by cost and age (GreedyDual): an entry is worth what computing it again would cost a
byte, on top of a clock that rises to the worth of each entry that had to go. So what isn't used
ages, and what is dear to compute ages slower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inference.engine.prefix import Activation, CacheKey, Prefix, of_tokens

State = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Belonging:
    """Whose text a prefix is, for sharing and for deletion, and what it was computed under."""

    key: CacheKey
    scope: str
    owner_key: str = ""
    conversation: str = ""
    activation: Activation | None = None

    def prefix_of(self, tokens: NDArray[np.int32]) -> Prefix:
        """Tokens of this belonging as the index knows them."""
        return of_tokens(tokens, self.activation)


@dataclass(eq=False, slots=True)
class StoredState:
    """A saved sequence: `tokens` in order, the first `public_len` of them everybody's."""

    tokens: NDArray[np.int32]
    belonging: Belonging
    public_len: int
    state: State
    cost_s: float
    worth: float = 0.0
    used: int = 0

    @property
    def num_bytes(self) -> int:
        """What it takes of the budget."""
        return self.state.nbytes + self.tokens.nbytes

    @property
    def length(self) -> int:
        """Tokens in it."""
        return len(self.tokens)


class HostCache:
    """Entries within `budget_bytes`; who indexes them is told what had to go."""

    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._clock = 0.0
        self._uses = 0
        self._entries: set[StoredState] = set()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[StoredState]:
        return iter(tuple(self._entries))

    def has_room_for(self, num_bytes: int) -> bool:
        """Whether an entry of that size can ever be held."""
        return num_bytes <= self.budget_bytes

    def put(self, entry: StoredState) -> list[StoredState]:
        """Take `entry` in; returns what had to go for it, which may be the entry itself."""
        if not self.has_room_for(entry.num_bytes):
            return [entry]
        self._entries.add(entry)
        self.used_bytes += entry.num_bytes
        self.touch(entry)
        gone = []
        while self.used_bytes > self.budget_bytes:
            least = min(self._entries, key=lambda other: (other is entry, other.worth, other.used))
            self._clock = max(self._clock, least.worth)
            self.remove(least)
            gone.append(least)
        return gone

    def touch(self, entry: StoredState) -> None:
        """It was of use."""
        self._uses += 1
        entry.used = self._uses
        entry.worth = self._clock + (entry.cost_s or entry.length) / max(1, entry.num_bytes)

    def remove(self, entry: StoredState) -> None:
        """Forget it; unknown ones are ignored."""
        if entry in self._entries:
            self._entries.remove(entry)
            self.used_bytes -= entry.num_bytes
