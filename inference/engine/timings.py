"""How long a sequence took, and how many prompt tokens fit into a step."""

from __future__ import annotations

from dataclasses import dataclass

from inference.engine.config import EngineConfig
from inference.protocol.events import Timings

SMOOTHING = 0.3  # weight of the newest measurement
SLACK_SHARE = 2  # half a step more


@dataclass(slots=True)
class SequenceClock:
    """Monotonic instants of one sequence; `None`: not reached."""

    begun_ts: float | None = None
    first_token_ts: float | None = None

    def timings(self, now: float) -> Timings:
        """Durations up to `now`."""
        if self.begun_ts is None:
            return Timings()
        if self.first_token_ts is None:
            return Timings(prefill_ms=(now - self.begun_ts) * 1e3)
        return Timings(
            prefill_ms=(self.first_token_ts - self.begun_ts) * 1e3,
            decode_ms=(now - self.first_token_ts) * 1e3,
        )


class PrefillPace:
    """Measures the prefill rate and sizes the prompt work of a step."""

    def __init__(self, config: EngineConfig, *, batch_len: int, ubatch_len: int) -> None:
        self._config = config
        self._batch_len = batch_len
        self._ubatch_len = ubatch_len
        self._token_s: float | None = None
        self._decode_step_s = 0.0

    @property
    def rate(self) -> float:
        """Prompt tokens per second, 0 before the first measurement."""
        return 1.0 / self._token_s if self._token_s else 0.0

    @property
    def decode_step_s(self) -> float:
        """Seconds a step without prompt work, 0 before the first measurement."""
        return self._decode_step_s

    @property
    def token_s(self) -> float:
        """Seconds a prompt token, 0 before the first measurement."""
        return self._token_s or 0.0

    def expected_s(self, *, num_prompt: int, num_decode: int) -> float:
        """What a step of these rows takes by what was measured."""
        return num_prompt * self.token_s + (self._decode_step_s if num_decode else 0.0)

    def observe(self, *, num_prompt: int, num_decode: int, elapsed_s: float) -> None:
        """Learn from a finished step."""
        if num_prompt == 0:
            self._decode_step_s = smooth(self._decode_step_s or None, elapsed_s)
        elif num_prompt >= self._config.min_piece_len or self._token_s is None:
            prompt_s = elapsed_s - (self._decode_step_s if num_decode else 0.0)
            self._token_s = smooth(self._token_s, max(prompt_s, 0.0) / num_prompt)

    def budget(self, *, num_decode: int) -> int:
        """Prompt tokens for the next step: whole ubatches where one fits the time."""
        least, fitting = self._config.min_piece_len, self._fitting(num_decode)
        unit = self._ubatch_len if fitting >= self._ubatch_len else least
        return min(max(fitting // unit * unit, least), self._batch_len - num_decode)

    def slack(self, budget: int, *, num_decode: int) -> int:
        """By how much the end of a prompt may go beyond `budget`: a small rest costs a pass over
        the weights of its own. While people are reading, whose stall it lengthens, only by what
        still fits the time."""
        if num_decode:
            return max(0, self._fitting(num_decode) - budget)
        return min(budget // SLACK_SHARE, self._batch_len - budget)

    def _fitting(self, num_decode: int) -> int:
        """Prompt tokens that the time of a step allows, and the batch."""
        room = self._batch_len - num_decode
        if self._token_s is None:
            return min(self._config.min_piece_len, room)
        target_s = 2 * self._config.step_target_s
        if num_decode:  # people are reading: the whole step is their stall
            target_s = max(0.0, self._config.step_target_s - self._decode_step_s)
        return room if self._token_s <= target_s / room else int(target_s / self._token_s)


def smooth(old: float | None, new: float) -> float:
    """The running average with `new` in it."""
    return new if old is None else old + SMOOTHING * (new - old)
