"""From arrival times to figures: what a cell was like, medians of rounds, ratios within rounds."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


class BenchError(Exception):
    """What was measured isn't what was to be measured; no figure of the run may be used."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: seconds from the request to each delta with text, and the counts it claims."""

    times: tuple[float, ...]
    num_tokens: int
    prompt_tokens: int
    num_chars: int

    def check(self, max_tokens: int) -> None:
        """Raise BenchError unless it is `max_tokens` long: nothing may end earlier.

        Few tokens have no text, so a server that claims more than it sends is found out too.
        """
        if self.num_tokens != max_tokens:
            raise BenchError(f"{self.num_tokens} tokens instead of {max_tokens}")
        if not self.times or self.num_chars < max_tokens / 2:
            raise BenchError(f"{max_tokens} tokens claimed, {self.num_chars} characters came")


@dataclass(frozen=True, slots=True)
class Figures:
    """One cell. `tps`: tokens/s of the whole cell; the others but the last two in ms.

    `ttft`: request to first text. `itl`: gap between two deltas. `tpot`: ms a token after the
    first. `e2e`: request to last text. `deltas` a token: 1 = none were merged.
    """

    tps: float
    ttft50: float
    ttft95: float
    itl50: float
    itl95: float
    itl99: float
    tpot: float
    e2e50: float
    e2e95: float
    deltas: float
    prompt: float


SHOWN = tuple(f.name for f in dataclasses.fields(Figures) if f.name != "prompt")
HIGHER_IS_BETTER = frozenset({"tps", "deltas"})


def figures_of(answers: Sequence[Answer], wall_s: float) -> Figures:
    """The figures of a cell that took `wall_s`."""
    times = [answer.times for answer in answers]
    gaps = [b - a for each in times for a, b in itertools.pairwise(each)] or [0.0]
    tokens = sum(answer.num_tokens for answer in answers)
    tpot = [
        (answer.times[-1] - answer.times[0]) / (answer.num_tokens - 1)
        for answer in answers
        if answer.num_tokens > 1
    ]
    first, last = [each[0] for each in times], [each[-1] for each in times]
    return Figures(
        tps=tokens / wall_s,
        ttft50=percentile_ms(first, 50),
        ttft95=percentile_ms(first, 95),
        itl50=percentile_ms(gaps, 50),
        itl95=percentile_ms(gaps, 95),
        itl99=percentile_ms(gaps, 99),
        tpot=statistics.median(tpot or [0.0]) * 1e3,
        e2e50=percentile_ms(last, 50),
        e2e95=percentile_ms(last, 95),
        deltas=sum(map(len, times)) / tokens,
        prompt=statistics.mean(answer.prompt_tokens for answer in answers),
    )


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


def ratios(name: str, ours: Sequence[Figures], base: Sequence[Figures]) -> Spread:
    """How much better `ours` is, round by round; above 1 is better in every figure."""
    pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(ours, base, strict=True)]
    if name in HIGHER_IS_BETTER:
        return spread([a / b for a, b in pairs])
    return spread([b / a if a else 1.0 for a, b in pairs])
