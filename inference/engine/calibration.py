"""Which settings serve a model best on a machine, decided on measured numbers. Pure.

One setting after the other, from the default: each other value is measured against the best so far
in interleaved repeats, and replaces it only if it is clearly better in every one of them. The
first repeat without a clear gain ends a comparison, so most cost two measurements. What there is
no time for stays as it was.

The score is the weighted geometric mean of what was measured: decoding weighs most, since people
wait for whole answers; reading prompts comes next. A setting that changes prefill only is judged
by that alone.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from inference.protocol.trial import Attempt, Choice, Measured, Outcome, Rates, Setting
from llamaweb.lib.clock import Clock

REPEATS = 3
LEAST_GAIN = 1.15  # below that, timings of this kind establish nothing
PATIENCE = 2.0  # a candidate that takes so many times as long as another choice has lost
WEIGHTS = (("decode_all", 0.35), ("decode_one", 0.35), ("prefill", 0.3))
PIECE_LEN = 128  # tokens of prompt a measurement reads, at most
UBATCH_LENS = (256, 512, 1024)


class VariantError(Exception):
    """This choice can't be measured: no context could be made, or computing failed."""


class OutOfTimeError(Exception):
    """The measurement would have ended too late, and wasn't finished."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What is measured: a prompt of `prompt_len` tokens; decoding too, if `decodes` (then a slow
    machine may read a shorter prompt)."""

    prompt_len: int = PIECE_LEN
    decodes: bool = True


@dataclass(frozen=True, slots=True)
class Candidate:
    """Another value of one setting."""

    setting: Setting
    value: int | str | bool
    sample: Sample = Sample()

    def applied_to(self, choice: Choice) -> Choice:
        """`choice` with this value."""
        changed: dict[str, Any] = {self.setting: self.value}
        return replace(choice, **changed)


class Meter(Protocol):
    """Measures a choice on the loaded model."""

    def measure(self, choice: Choice, sample: Sample, deadline_ts: float) -> Rates:
        """Tokens a second; decode rates are 0 where the sample has none.

        Raises:
            VariantError: see there.
            OutOfTimeError: past `deadline_ts` (of the session's clock).
        """
        ...


def candidates(
    default: Choice,
    open_settings: Sequence[Setting],
    *,
    num_cores: int,
    num_slots: int,
    batch_len: int,
    may_choose_flash: bool,
    may_unify: bool,
) -> list[Candidate]:
    """What to try instead of `default`, in the order in which it is tried: what promises most, and
    what can cost most time (on a busy machine one thread too many makes every step crawl) late.

    `may_choose_flash`: the types of the KV cache leave a choice; `may_unify`: nothing that was
    asked for needs a stream a slot.
    """
    found: list[Candidate] = []
    if "flash_attention" in open_settings and may_choose_flash:
        found.append(
            Candidate("flash_attention", "on" if default.flash_attention == "off" else "off")
        )
    if "kv_unified" in open_settings and may_unify and num_slots > 1:
        found.append(Candidate("kv_unified", not default.kv_unified))
    if "threads" in open_settings and default.threads < num_cores:
        found.append(Candidate("threads", num_cores))
    if "ubatch_len" in open_settings:
        for length in UBATCH_LENS:
            if length != default.ubatch_len and length <= batch_len:
                # Only a prompt that fills the larger one shows the difference.
                sample = Sample(max(length, default.ubatch_len), decodes=False)
                found.append(Candidate("ubatch_len", length, sample))
    return found


def gain(rates: Rates, over: Rates) -> float:
    """The score of `rates` over that of others, by what both measured."""
    total, log_sum = 0.0, 0.0
    for name, weight in WEIGHTS:
        here, there = getattr(rates, name), getattr(over, name)
        if here > 0 and there > 0:
            total += weight
            log_sum += weight * math.log(here / there)
    return math.exp(log_sum / total) if total else 1.0


class Calibration:
    """One session of measuring; `run` is called once."""

    def __init__(self, meter: Meter, clock: Clock, *, budget_s: float) -> None:
        self._meter = meter
        self._clock = clock
        self._started_ts = clock.monotonic()
        self._deadline_ts = self._started_ts + budget_s
        self._seen: dict[Choice, list[Rates]] = {}
        self._took_s: dict[tuple[Choice, Sample], float] = {}  # the last one of each
        self._longest_s: dict[Sample, float] = {}  # with the context made for it

    def run(self, default: Choice, tries: Sequence[Candidate]) -> Measured:
        """Measure `default`, then `tries` against the best so far."""
        best = default
        attempts: list[Attempt] = []
        try:
            self._measure(default, Sample())
        except (VariantError, OutOfTimeError) as error:
            outcome: Outcome = "failed" if isinstance(error, VariantError) else "no_time"
            attempts, tries = [_attempt(candidate, outcome) for candidate in tries], ()
        for _, group in itertools.groupby(tries, key=lambda candidate: candidate.setting):
            done = [(candidate, self._try(best, candidate)) for candidate in group]
            taken = [pair for pair in done if pair[1].outcome == "taken"]
            winner = max(taken, key=lambda pair: min(pair[1].gains))[0] if taken else None
            if winner is not None:
                best = winner.applied_to(best)
            attempts += [
                replace(attempt, outcome="outdone")
                if attempt.outcome == "taken" and candidate is not winner
                else attempt
                for candidate, attempt in done
            ]
        return Measured(
            default=default,
            choice=best,
            default_rates=self._medians(default),
            rates=self._medians(best),
            attempts=tuple(attempts),
            duration_s=self._clock.monotonic() - self._started_ts,
        )

    def _try(self, best: Choice, candidate: Candidate) -> Attempt:
        """`taken` if it may replace `best`."""
        other = candidate.applied_to(best)
        gains: list[float] = []
        for repeat in range(REPEATS):
            if self._clock.monotonic() + self._pair_s(best, candidate.sample) > self._deadline_ts:
                return _attempt(candidate, "no_time", gains)
            # Who goes first alternates: a machine that slows down favours neither.
            order = (best, other) if repeat % 2 == 0 else (other, best)
            try:
                rates = {
                    choice: self._measure(choice, candidate.sample, is_candidate=choice is other)
                    for choice in order
                }
            except VariantError:
                return _attempt(candidate, "failed", gains)
            except OutOfTimeError:
                is_late = self._clock.monotonic() > self._deadline_ts
                return _attempt(candidate, "no_time" if is_late else "no_gain", gains)
            gains.append(gain(rates[other], over=rates[best]))
            if gains[-1] < LEAST_GAIN:
                return _attempt(candidate, "no_gain", gains)
        return _attempt(candidate, "taken", gains)

    def _measure(self, choice: Choice, sample: Sample, *, is_candidate: bool = False) -> Rates:
        started_ts = self._clock.monotonic()
        deadline_ts = self._deadline_ts
        if is_candidate:
            deadline_ts = min(deadline_ts, started_ts + PATIENCE * self._longest_s[sample])
        rates = self._meter.measure(choice, sample, deadline_ts)
        took_s = self._took_s[choice, sample] = self._clock.monotonic() - started_ts
        self._longest_s[sample] = max(took_s, self._longest_s.get(sample, 0.0))
        if sample.decodes:
            self._seen.setdefault(choice, []).append(rates)
        return rates

    def _pair_s(self, best: Choice, sample: Sample) -> float:
        """What two measurements are going to take, by what is known."""
        if (best, sample) in self._took_s:
            return 2 * self._took_s[best, sample]
        return 2 * sample.prompt_len / max(self._medians(best).prefill, 1e-9)

    def _medians(self, choice: Choice) -> Rates:
        seen = self._seen.get(choice)
        if not seen:
            return Rates()
        return Rates(
            *(
                statistics.median(getattr(rates, name) for rates in seen)
                for name in ("prefill", "decode_one", "decode_all")
            )
        )


def _attempt(candidate: Candidate, outcome: Outcome, gains: Sequence[float] = ()) -> Attempt:
    value = candidate.value
    text = ("on" if value else "off") if isinstance(value, bool) else str(value)
    return Attempt(candidate.setting, text, outcome, tuple(round(one, 3) for one in gains))
