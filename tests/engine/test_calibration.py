"""What a calibration decides, on scripted measurements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.calibration import (
    LEAST_GAIN,
    PATIENCE,
    REPEATS,
    Calibration,
    Candidate,
    OutOfTimeError,
    Sample,
    VariantError,
    candidates,
    gain,
)
from inference.protocol.codec import DecodeError
from inference.protocol.spec import EngineSpec
from inference.protocol.trial import (
    Choice,
    Measured,
    Rates,
    TrialOrder,
    TrialReport,
    decode_order,
    decode_report,
    encode_line,
)
from llamaweb.lib.clock import ManualClock

DEFAULT = Choice(threads=1, flash_attention="off", kv_unified=False, ubatch_len=512)
FLASH = Candidate("flash_attention", "on")
THREADS = Candidate("threads", 2)
SMALL, LARGE = (
    Candidate("ubatch_len", num, Sample(max(num, 512), decodes=False)) for num in (256, 1024)
)
BASE = Rates(prefill=100.0, decode_one=20.0, decode_all=50.0)


def times(factor: float) -> Rates:
    return Rates(*(factor * getattr(BASE, name) for name in BASE.__dataclass_fields__))


class Scripted:
    """A meter that says what `rates(choice, number of its measurements before)` says, and takes
    `took_s` for it."""

    def __init__(self, rates: Callable[[Choice, int], Rates], took_s: float = 0.5) -> None:
        self.clock = ManualClock()
        self.asked: list[tuple[Choice, Sample]] = []
        self._rates, self.took_s = rates, took_s

    def measure(self, choice: Choice, sample: Sample, deadline_ts: float) -> Rates:
        before = sum(asked == choice for asked, _ in self.asked)
        self.asked.append((choice, sample))
        rates = self._rates(choice, before)
        took_s = self.took_s * BASE.decode_one / rates.decode_one
        self.clock.advance(min(took_s, deadline_ts - self.clock.now + 0.01))
        if self.clock.now > deadline_ts:
            raise OutOfTimeError
        return rates if sample.decodes else replace(rates, decode_one=0.0, decode_all=0.0)


def run(meter: Scripted, *tries: Candidate, budget_s: float = 60.0) -> Measured:
    return Calibration(meter, meter.clock, budget_s=budget_s).run(DEFAULT, tries)


def outcomes(measured: Measured) -> list[str]:
    return [attempt.outcome for attempt in measured.attempts]


def flash_gains(*gains: float) -> Callable[[Choice, int], Rates]:
    """Flash attention is so many times as fast, measurement by measurement."""

    def rates(choice: Choice, before: int) -> Rates:
        return times(gains[before % len(gains)]) if choice.flash_attention == "on" else BASE

    return rates


def test_a_gain_in_every_repeat_is_taken() -> None:
    measured = run(Scripted(flash_gains(1.2, 1.16, 1.4)), FLASH)
    assert measured.choice == replace(DEFAULT, flash_attention="on")
    assert (measured.default, measured.default_rates) == (DEFAULT, BASE)
    assert measured.rates == times(1.2)
    (attempt,) = measured.attempts
    assert (attempt.setting, attempt.value, attempt.outcome) == ("flash_attention", "on", "taken")
    assert attempt.gains == (1.2, 1.16, 1.4)


@pytest.mark.parametrize(
    "gains", [(1.1, 3.0, 3.0), (3.0, 1.1, 3.0), (3.0, 3.0, 1.14), (1.0,), (0.5,)]
)
def test_one_repeat_without_a_clear_gain_keeps_the_default(gains: tuple[float, ...]) -> None:
    measured = run(Scripted(flash_gains(*gains)), FLASH)
    assert measured.choice == DEFAULT
    assert measured.rates == BASE
    assert outcomes(measured) == ["no_gain"]


@given(st.lists(st.floats(0.3, 3.0), min_size=2 * REPEATS + 1, max_size=2 * REPEATS + 1))
def test_noise_never_wins_unless_it_wins_every_time(speeds: list[float]) -> None:
    values: Iterator[float] = iter(speeds)
    seen: dict[Choice, list[float]] = {}

    def rates(choice: Choice, _before: int) -> Rates:
        seen.setdefault(choice, []).append(next(values))
        return times(seen[choice][-1])

    measured = run(Scripted(rates), FLASH)
    base = seen[DEFAULT][1:]  # the first one compares with nothing
    other = seen.get(replace(DEFAULT, flash_attention="on"), [])
    gains = [there / here for here, there in zip(base, other, strict=False)]
    wins = len(gains) == REPEATS and min(gains) >= LEAST_GAIN * (1 - 1e-9)
    assert (measured.choice != DEFAULT) == wins


def test_repeats_are_interleaved_and_take_turns_at_going_first() -> None:
    meter = Scripted(flash_gains(1.3))
    run(meter, FLASH)
    order = [choice.flash_attention for choice, _ in meter.asked]
    assert order == ["off", "off", "on", "on", "off", "off", "on"]


def test_the_next_setting_is_compared_with_what_was_taken() -> None:
    def rates(choice: Choice, _before: int) -> Rates:
        return times((1.3 if choice.flash_attention == "on" else 1.0) * 1.5**choice.threads)

    meter = Scripted(rates)
    measured = run(meter, FLASH, THREADS)
    assert measured.choice == Choice(2, "on", False, 512)
    assert all(choice.flash_attention == "on" for choice, _ in meter.asked[7:])


def test_the_best_of_several_values_is_taken() -> None:
    def rates(choice: Choice, _before: int) -> Rates:
        return times({512: 1.0, 256: 1.3, 1024: 1.5}[choice.ubatch_len])

    measured = run(Scripted(rates), SMALL, LARGE)
    assert measured.choice.ubatch_len == 1024
    assert outcomes(measured) == ["outdone", "taken"]


def test_what_there_is_no_time_for_stays_as_it_was() -> None:
    meter = Scripted(flash_gains(2.0), took_s=1.0)
    measured = run(meter, FLASH, THREADS, budget_s=4.0)  # one pair fits, two don't
    assert measured.choice == DEFAULT
    assert outcomes(measured) == ["no_time", "no_time"]
    assert measured.duration_s <= 4.0


def test_no_time_for_the_default_itself() -> None:
    measured = run(Scripted(flash_gains(2.0), took_s=1.0), FLASH, budget_s=0.5)
    assert (measured.choice, measured.rates) == (DEFAULT, Rates())
    assert outcomes(measured) == ["no_time"]


def test_a_candidate_that_crawls_is_left_soon() -> None:
    def rates(choice: Choice, _before: int) -> Rates:
        return times(0.001) if choice.threads == 2 else BASE

    meter = Scripted(rates, took_s=1.0)
    measured = run(meter, THREADS, FLASH)
    assert outcomes(measured) == ["no_gain", "no_gain"]
    assert meter.clock.now < ManualClock().now + 4 * 1.0 + PATIENCE + 0.1


def test_a_variant_that_can_not_be_made_is_left_out() -> None:
    def rates(choice: Choice, _before: int) -> Rates:
        if choice.flash_attention == "on":
            raise VariantError("no context")
        return times(2.0) if choice.threads == 2 else BASE

    measured = run(Scripted(rates), FLASH, THREADS)
    assert outcomes(measured) == ["failed", "taken"]
    assert measured.choice == replace(DEFAULT, threads=2)


def test_a_default_that_can_not_be_measured_stays() -> None:
    def rates(_choice: Choice, _before: int) -> Rates:
        raise VariantError("too small a context")

    measured = run(Scripted(rates), FLASH)
    assert (measured.choice, outcomes(measured)) == (DEFAULT, ["failed"])


def test_the_score() -> None:
    assert gain(times(1.5), over=BASE) == pytest.approx(1.5)
    # Reading twice as fast doesn't make up for writing half as fast.
    assert gain(Rates(2.0, 0.5, 0.5), over=Rates(1.0, 1.0, 1.0)) < 1
    assert gain(Rates(prefill=1.2), over=Rates(1.0, 9.0, 9.0)) == pytest.approx(1.2)
    assert gain(Rates(), over=BASE) == 1.0


def test_the_plan() -> None:
    every = ("threads", "flash_attention", "kv_unified", "ubatch_len")

    def plan(*settings: str, **changes: object) -> list[tuple[str, object]]:
        values: dict[str, object] = {
            "num_cores": 2, "num_slots": 4, "batch_len": 2048, "may_choose_flash": True,
            "may_unify": True,
        }  # fmt: skip
        found = candidates(DEFAULT, settings or every, **{**values, **changes})  # type: ignore[arg-type]
        return [(one.setting, one.value) for one in found]

    assert plan() == [
        ("flash_attention", "on"),
        ("kv_unified", True),
        ("threads", 2),
        ("ubatch_len", 256),
        ("ubatch_len", 1024),
    ]
    assert plan("threads", num_cores=1) == []
    assert plan("flash_attention", may_choose_flash=False) == []
    assert plan("kv_unified", num_slots=1) == []
    assert plan("kv_unified", may_unify=False) == []
    assert plan("ubatch_len", batch_len=512) == [("ubatch_len", 256)]
    assert plan("threads") == [("threads", 2)]


def test_orders_and_reports_cross_a_pipe() -> None:
    order = TrialOrder(EngineSpec("m", "e", "", ""), ("threads", "kv_unified"), 10.0)
    assert decode_order(encode_line(order)) == order
    report = TrialReport(run(Scripted(flash_gains(1.2)), FLASH))
    line = encode_line(report)
    assert "\n" not in line
    assert decode_report(line) == report
    for text in ("", "{}", "[]", '{"t":"TrialReport","measured":1}'):
        with pytest.raises(DecodeError):
            decode_report(text)
