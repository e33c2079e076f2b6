"""From arrival times to figures: what a cell was like, medians of rounds, ratios within rounds."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


class BenchError(Exception):
    """What was measured isn't what was to be measured; no figure of the run may be used."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: seconds from the request to each delta with text, the counts it claims, and when
    it was asked for (monotonic)."""

    times: tuple[float, ...]
    num_tokens: int
    prompt_tokens: int
    text: str
    started_ts: float = 0.0

    @property
    def instants(self) -> tuple[float, ...]:
        """When each delta came."""
        return tuple(self.started_ts + time for time in self.times)

    @property
    def tpot_s(self) -> float:
        """Seconds a token after the first one; 0 for a single token."""
        if self.num_tokens < 2:
            return 0.0
        return (self.times[-1] - self.times[0]) / (self.num_tokens - 1)

    def check(self, max_tokens: int) -> None:
        """Raise BenchError unless it is `max_tokens` long: nothing may end earlier.

        Few tokens have no text, so a server that claims more than it sends is found out too.
        """
        if self.num_tokens != max_tokens:
            raise BenchError(f"{self.num_tokens} tokens instead of {max_tokens}")
        if not self.times or len(self.text) < max_tokens / 2:
            raise BenchError(f"{max_tokens} tokens claimed, {len(self.text)} characters came")


@dataclass(frozen=True, slots=True)
class Figures:
    """One cell. Rates in tokens/s, durations in ms.

    `tps`: of the whole cell. `ttft`: request to first text. `itl`: gap between two deltas. `tpot`:
    a token after the first. `e2e`: request to last text. `deltas` a token: 1 = none were merged.
    `decode_tps`: while all streams were between their first and last text; 0: they never were.
    `in_time`: share of the answers with a TTFT and a TPOT that people take for fluent. `prompt`:
    mean tokens.
    """

    tps: float
    ttft50: float
    ttft95: float
    itl50: float
    itl95: float
    itl99: float
    itl_max: float
    tpot: float
    e2e50: float
    e2e95: float
    deltas: float
    decode_tps: float
    in_time: float
    prompt: float


SHOWN = (
    *("tps", "ttft50", "ttft95", "itl50", "itl95", "itl99"),
    *("tpot", "e2e50", "e2e95", "deltas"),
)
HIGHER_IS_BETTER = frozenset({"tps", "deltas", "decode_tps", "in_time"})
FLUENT_TTFT_S, FLUENT_TPOT_S = 2.0, 0.060


def figures_of(answers: Sequence[Answer], wall_s: float, streams: int = 1) -> Figures:
    """The figures of a cell that took `wall_s` with so many answers at a time."""
    times = [answer.times for answer in answers]
    gaps = [b - a for each in times for a, b in itertools.pairwise(each)] or [0.0]
    tokens = sum(answer.num_tokens for answer in answers)
    tpot = [answer.tpot_s for answer in answers if answer.num_tokens > 1]
    fluent = [a.times[0] <= FLUENT_TTFT_S and a.tpot_s <= FLUENT_TPOT_S for a in answers]
    first, last = [each[0] for each in times], [each[-1] for each in times]
    return Figures(
        tps=tokens / wall_s,
        ttft50=percentile_ms(first, 50),
        ttft95=percentile_ms(first, 95),
        itl50=percentile_ms(gaps, 50),
        itl95=percentile_ms(gaps, 95),
        itl99=percentile_ms(gaps, 99),
        itl_max=max(gaps) * 1e3,
        tpot=statistics.median(tpot or [0.0]) * 1e3,
        e2e50=percentile_ms(last, 50),
        e2e95=percentile_ms(last, 95),
        deltas=sum(map(len, times)) / tokens,
        decode_tps=decode_rate(answers, streams),
        in_time=sum(fluent) / len(fluent),
        prompt=statistics.fmean(answer.prompt_tokens for answer in answers),
    )


def decode_rate(answers: Sequence[Answer], streams: int) -> float:
    """Tokens/s in the spans in which exactly `streams` answers were between their first and last
    delta, so that nobody's prompt was computed; 0 without such a span."""
    edges = sorted(
        edge for answer in answers for edge in ((answer.instants[0], 1), (answer.instants[-1], -1))
    )
    spans: list[tuple[float, float]] = []
    running = 0
    for (start_ts, change), (end_ts, _) in itertools.pairwise(edges):
        running += change
        if running == streams and end_ts > start_ts:
            spans.append((start_ts, end_ts))
    tokens = sum(
        answer.num_tokens / len(answer.times)
        for answer in answers
        for instant in answer.instants
        if any(start_ts < instant <= end_ts for start_ts, end_ts in spans)
    )
    return tokens / sum(end_ts - start_ts for start_ts, end_ts in spans) if spans else 0.0


def worst_gap_ms(answers: Sequence[Answer], since_ts: float) -> float:
    """The longest gap between two deltas of one answer that ended after `since_ts`; 0: none."""
    gaps = [
        later - earlier
        for answer in answers
        for earlier, later in itertools.pairwise(answer.instants)
        if later > since_ts
    ]
    return max(gaps, default=0.0) * 1e3


def percentile_ms(seconds: Sequence[float], percent: float) -> float:
    """The value that `percent` of all don't exceed, in ms."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(percent / 100 * len(ordered)))] * 1e3


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of one figure over the rounds."""

    median: float
    least: float
    most: float


def spread(values: Sequence[float]) -> Spread:
    """Median and range of `values`."""
    return Spread(statistics.median(values), min(values), max(values))


def ratio(name: str, ours: float, base: float) -> float:
    """How much better `ours` is; above 1 is better in every figure. Two zeros are alike."""
    if name not in HIGHER_IS_BETTER:
        ours, base = base, ours
    if base:
        return ours / base
    return math.inf if ours else 1.0


def ratios(name: str, ours: Sequence[Figures], base: Sequence[Figures]) -> Spread:
    """How much better `ours` is, round by round."""
    pairs = zip(ours, base, strict=True)
    return spread([ratio(name, getattr(a, name), getattr(b, name)) for a, b in pairs])
