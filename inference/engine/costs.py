"""What each way to get a prefix costs on this machine, from what it has cost so far. Seconds."""

from __future__ import annotations

from inference.engine.timings import PrefillPace, smooth

FADING = 0.99  # what isn't used is measured again some day: one bad measurement isn't for ever
# That a start which was saved is asked for again: what to expect at first and at least, and how
# much one more save tells.
FIRST_CHANCE, LEAST_CHANCE, CHANCE_WEIGHT = 0.1, 0.05, 0.05


class CacheCosts:
    """Until something was measured it counts as free: the first try is the measurement."""

    def __init__(self, pace: PrefillPace) -> None:
        self._pace = pace
        self._copy_s: float | None = None
        self._save_byte_s: float | None = None
        self._restore_byte_s: float | None = None
        self._token_bytes: float | None = None
        self._return_chance = FIRST_CHANCE

    @property
    def token_bytes(self) -> float:
        """Bytes of state a token, 0 before the first save."""
        return self._token_bytes or 0.0

    def recompute_s(self, num_tokens: int) -> float:
        """Computing that many prompt tokens."""
        return num_tokens * self._pace.token_s

    def copy_s(self) -> float:
        """A copy between two streams, whatever they hold."""
        return self._copy_s or 0.0

    def save_s(self, num_bytes: int) -> float:
        """Reading a state out of the context."""
        return num_bytes * (self._save_byte_s or 0.0)

    def restore_s(self, num_bytes: int) -> float:
        """Writing a state into the context."""
        return num_bytes * (self._restore_byte_s or 0.0)

    def is_worth_saving(self, num_bytes: int, num_lost: int) -> bool:
        """Whether to read a state out for the `num_lost` tokens that are nowhere else: now it
        costs time for certain, and spares some only if they are asked for again, as often as it
        was so far."""
        spared_s = self.recompute_s(num_lost) - self.restore_s(num_bytes)
        return max(self._return_chance, LEAST_CHANCE) * spared_s >= self.save_s(num_bytes)

    def observe_stored(self) -> None:
        """A state was saved for whoever asks for its start again."""
        self._return_chance *= 1 - CHANCE_WEIGHT

    def observe_return(self) -> None:
        """Somebody did."""
        self._return_chance = min(1.0, self._return_chance + CHANCE_WEIGHT)

    def observe_save(self, num_bytes: int, num_tokens: int, elapsed_s: float) -> None:
        """A state was read."""
        self._save_byte_s = smooth(self._save_byte_s, elapsed_s / max(1, num_bytes))
        self._token_bytes = smooth(self._token_bytes, num_bytes / max(1, num_tokens))

    def observe_restore(self, num_bytes: int, elapsed_s: float) -> None:
        """A state was written."""
        self._restore_byte_s = smooth(self._restore_byte_s, elapsed_s / max(1, num_bytes))

    def observe_copies(self, num_copies: int, excess_s: float) -> None:
        """A step that began with copies took that much longer than its rows explain."""
        if self._pace.token_s:  # else nothing explains the rows
            self._copy_s = smooth(self._copy_s, max(0.0, excess_s) / num_copies)

    def fade(self, *, is_copy: bool, is_state: bool) -> None:
        """A prefix was brought in one of these ways, or in none; the others seem cheaper now."""
        if not is_copy and self._copy_s is not None:
            self._copy_s *= FADING
        if not is_state and self._restore_byte_s is not None:
            self._restore_byte_s *= FADING

    def fade_save(self) -> None:
        """Nothing was saved, since that seemed too dear."""
        if self._save_byte_s is not None:
            self._save_byte_s *= FADING
