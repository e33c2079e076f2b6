"""How many tokens of texts fit into a time, from what batches of them took so far."""

from __future__ import annotations

from inference.engine.timings import smooth

FIRST_LEN = 32  # tokens of the first batch, which measures the rate
LEAST_LEN = 8  # fewer take hardly less time: the weights are read for each batch
# With this many, about one batch in twenty of a steady rate takes longer than it may.
NUM_DEVIATIONS = 4.0


class Estimate:
    """What something takes: the running average of what it took, and how far above it goes.

    What comes out below the average is no reason to be careful, so it isn't a deviation.
    """

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self._above_s = 0.0

    @property
    def mean_s(self) -> float | None:
        """Seconds; None before the first measurement."""
        return self._mean_s

    @property
    def most_s(self) -> float:
        """Seconds that it hardly ever exceeds, 0 before the first measurement."""
        return (self._mean_s or 0.0) + NUM_DEVIATIONS * self._above_s

    def observe(self, elapsed_s: float) -> None:
        """It took that long."""
        if self._mean_s is not None:
            self._above_s = smooth(self._above_s, max(0.0, elapsed_s - self._mean_s))
        self._mean_s = smooth(self._mean_s, elapsed_s)


class TextPace:
    """Sizes batches by the measured rate, and by how far that strays: on a machine that does other
    things as well, a batch of the average size is too long every other time."""

    def __init__(self) -> None:
        self._token = Estimate()
        self._given = FIRST_LEN

    def fitting(self, target_s: float, *, most: int) -> int:
        """Tokens of the next batch, which is to take `target_s`; `most` at most, 1 to `LEAST_LEN`
        at least."""
        if self._token.mean_s is None:
            fitting = FIRST_LEN
        else:
            token_s = self._token.most_s
            fitting = most if token_s * most <= target_s else int(target_s / token_s)
        self._given = min(max(fitting, LEAST_LEN), most)
        return self._given

    def observe(self, num_tokens: int, elapsed_s: float) -> None:
        """A batch took that long.

        Fewer tokens cost more each, so a small batch says how large another may be only where that
        is about as small, or where even it was faster than expected.
        """
        token_s = elapsed_s / num_tokens
        is_telling = num_tokens >= min(FIRST_LEN, self._given / 2)
        if self._token.mean_s is None or is_telling or token_s < self._token.mean_s:
            self._token.observe(token_s)
