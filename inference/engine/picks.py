"""How a token is chosen: the sampler's side, and the plain greedy one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from inference.protocol.events import TokenLogprobs

Logits: TypeAlias = NDArray[np.float32]


class Pick(NamedTuple):
    """A chosen token and the random numbers it took.

    `after`, where the request asks for it: (token, probability) as the chain left them, the chosen
    one first, then the likeliest ones, the chosen one among them if it is one. `logprobs`: what is
    shown to the reader, added by the picker.
    """

    token_id: int
    draws: int = 0
    after: tuple[tuple[int, float], ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()


class Sampler(Protocol):
    """Picks the tokens of one sequence.

    `replays_by_count`: after `accept` of every token and `skip` of the numbers drawn it is where
    it was. Others have to see the logits again.
    """

    replays_by_count: bool

    def pick(self, logits: Logits) -> Pick:
        """Choose, remembering nothing but the random numbers. May overwrite `logits`."""
        ...

    def prime(self, tokens: Iterable[int]) -> None:
        """Remember the end of the prompt."""
        ...

    def accept(self, token_id: int) -> None:
        """Remember a token of the answer."""
        ...

    def skip(self, draws: int) -> None:
        """Advance the random numbers by `draws`, as if they had been used."""
        ...

    def close(self) -> None:
        """Free what it holds; called once."""
        ...


class GreedySampler:
    """The largest logit after fixed biases; no random numbers, no memory."""

    replays_by_count = True

    def __init__(self, bias: tuple[tuple[int, float], ...] = (), *, shows_probs: bool = False):
        self._ids = np.array([token for token, _ in bias], np.int64)
        self._values = np.array([value for _, value in bias], np.float32)
        self._shows_probs = shows_probs

    def pick(self, logits: Logits) -> Pick:
        """See `Sampler.pick`; leaves `logits` as they were."""
        if self._ids.size:
            before = logits[self._ids]
            logits[self._ids] += self._values
            token = int(logits.argmax())
            logits[self._ids] = before
        else:
            token = int(logits.argmax())
        return Pick(token, 0, ((token, 1.0), (token, 1.0)) if self._shows_probs else ())

    def prime(self, tokens: Iterable[int]) -> None:
        """Nothing depends on earlier tokens."""

    def accept(self, token_id: int) -> None:
        """Nothing depends on earlier tokens."""

    def skip(self, draws: int) -> None:
        """Nothing is drawn."""

    def close(self) -> None:
        """Nothing is held."""
