"""What the next token may be beside what the model wants: masks and forced tokens.

A constraint looks at one token at a time. Only after it refused the token that was sampled first is
the whole vocabulary masked and sampled again, as llama-server does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from inference.engine.picks import Logits, Pick, Sampler
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import FailedError


class ConstraintError(FailedError):
    """No token can follow, or one followed that can't: the sequence ends."""


class Constraint(Protocol):
    """A rule over the tokens of one answer, such as a grammar or a budget."""

    def forced(self) -> int | None:
        """The one token that must come next, whatever the model says; not if others refuse it."""
        ...

    def allows(self, token_id: int) -> bool:
        """Whether this token may come next."""
        ...

    def mask(self, logits: Logits) -> None:
        """Set the logits of all tokens that may not come next to -inf."""
        ...

    def accept(self, token_id: int) -> None:
        """Go on behind a token.

        Raises:
            ConstraintError: it may not come here.
            InvalidError: the rule takes too much to follow.
        """
        ...

    def close(self) -> None:
        """Free what it holds; called once."""
        ...


class Guard(Constraint, Protocol):
    """The constraint that ends an answer's reasoning."""

    def end(self) -> None:
        """End it now."""
        ...


class ConstrainedSampler:
    """A `Sampler` within constraints; a forced token draws nothing."""

    def __init__(
        self,
        inner: Sampler,
        constraints: Sequence[Constraint],
        tokenizer: Tokenizer,
        guard: Guard | None = None,
    ) -> None:
        """`guard`: the one of `constraints` that ends reasoning."""
        self._inner = inner
        self._constraints = tuple(constraints)
        self._guard = guard
        self._tokenizer = tokenizer
        self.replays_by_count = inner.replays_by_count

    def pick(self, logits: Logits) -> Pick:
        """See `Sampler.pick`; may mask `logits`.

        Raises:
            ConstraintError: no token can follow.
        """
        for constraint in self._constraints:
            forced = constraint.forced()
            if forced is not None and self._allows(forced):
                return Pick(forced, after=((forced, 1.0),))
        first = self._inner.pick(logits)
        if self._allows(first.token_id):
            return first
        for constraint in self._constraints:
            constraint.mask(logits)
        second = self._inner.pick(logits)
        draws = first.draws + second.draws
        if self._allows(second.token_id):
            return second._replace(draws=draws)
        # Nothing is left to say, or only an end that the request's biases forbid.
        end = next(filter(self._allows, self._tokenizer.end_tokens), None)
        if end is None:
            raise ConstraintError("the grammar leaves no token that could follow")
        return Pick(end, draws, ((end, 1.0),))

    def prime(self, tokens: Iterable[int]) -> None:
        """See `Sampler.prime`."""
        self._inner.prime(tokens)

    def accept(self, token_id: int) -> None:
        """See `Sampler.accept`."""
        for constraint in self._constraints:
            constraint.accept(token_id)
        self._inner.accept(token_id)

    def end_reasoning(self) -> None:
        """See `StepEngine.end_reasoning`."""
        if self._guard is not None:
            self._guard.end()

    def skip(self, draws: int) -> None:
        """See `Sampler.skip`."""
        self._inner.skip(draws)

    def close(self) -> None:
        """See `Sampler.close`."""
        for constraint in self._constraints:
            constraint.close()
        self._inner.close()

    def _allows(self, token_id: int) -> bool:
        return all(constraint.allows(token_id) for constraint in self._constraints)
