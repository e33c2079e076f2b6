"""llama-server's metrics, by its names, for dashboards that were made for it.

One server there is one model, so here each has the label `model`. Rates are over all the time since
the engines began: they don't depend on who else scrapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from llamaweb.lib.instrument import Instrument

PEER_PREFIX: Final = "llamacpp"
Numbers: TypeAlias = Mapping[str, float]
Value: TypeAlias = Callable[[Numbers], float]


@dataclass(frozen=True, slots=True)
class PeerNumber:
    """`value`: of the sums of `Engine.stats()` over a model's engines, and of `processing` and
    `deferred` requests."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    value: Value

    @property
    def instrument(self) -> Instrument:
        """How it is documented and exported."""
        return Instrument(f"{PEER_PREFIX}:{self.name}", self.kind, self.help)


def _of(name: str) -> Value:
    return lambda numbers: numbers.get(name, 0.0)


def _counter(name: str, value: Value, help_text: str) -> PeerNumber:
    return PeerNumber(f"{name}_total", "counter", help_text, value)


def _prompt_seconds(numbers: Numbers) -> float:
    """Steps with prompt work also write answers; what those take alone isn't known."""
    return max(0.0, numbers.get("step_s", 0.0) - numbers.get("decode_step_s", 0.0))


def _rate(over: Value, by: Value) -> Value:
    def rate(numbers: Numbers) -> float:
        divisor = by(numbers)
        return over(numbers) / divisor if divisor > 0 else 0.0

    return rate


def _none(_numbers: Numbers) -> float:
    """No model is drafted for."""
    return 0.0


PEER_NUMBERS: Final = (
    _counter("prompt_tokens", _of("prompt_tokens"), "Prompt tokens computed."),
    _counter(
        "prompt_tokens_cached", _of("cached_tokens"), "Prompt tokens that were there already."
    ),
    _counter("prompt_seconds", _prompt_seconds, "Time in steps with prompt work."),
    _counter("tokens_predicted", _of("generated_tokens"), "Tokens generated."),
    _counter(
        "tokens_predicted_seconds", _of("decode_step_s"), "Time in steps without prompt work."
    ),
    _counter("n_decode", _of("steps"), "Batches computed."),
    _counter("spec_decode_num_drafts", _none, "Drafts; 0, nothing is drafted."),
    _counter("spec_decode_num_draft_tokens", _none, "Tokens drafted; 0."),
    _counter("spec_decode_num_accepted_tokens", _none, "Drafted tokens that were right; 0."),
    PeerNumber(
        "prompt_tokens_seconds",
        "gauge",
        "Prompt tokens a second of `prompt_seconds_total`.",
        _rate(_of("prompt_tokens"), _prompt_seconds),
    ),
    PeerNumber(
        "predicted_tokens_seconds",
        "gauge",
        "Tokens a second of all steps.",
        _rate(_of("generated_tokens"), _of("step_s")),
    ),
    PeerNumber("requests_processing", "gauge", "Requests in slots now.", _of("processing")),
    PeerNumber("requests_deferred", "gauge", "Requests in the queue now.", _of("deferred")),
    PeerNumber(
        "n_busy_slots_per_decode",
        "gauge",
        "Answers that a batch wrote at, on average.",
        _rate(_of("generated_tokens"), _of("steps")),
    ),
)


def peer_families(readings: Iterable[tuple[str, Numbers]]) -> Iterator[Metric]:
    """`readings`: the numbers of each model."""
    known = list(readings)
    for number in PEER_NUMBERS:
        of = number.instrument
        family = CounterMetricFamily if number.kind == "counter" else GaugeMetricFamily
        metric = family(of.name, of.help, labels=of.labels)
        for model, numbers in known:
            metric.add_metric([model], number.value(numbers))
        yield metric
