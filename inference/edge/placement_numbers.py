"""What the supervisor's heartbeats say of models and memory, as metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.edge import instruments
from inference.queues.contract import EngineStatus
from llamaweb.lib.instrument import Instrument

OF_MODELS = (
    ("loads", instruments.MODEL_LOADS),
    ("evictions", instruments.MODEL_EVICTIONS),
    ("load_failures", instruments.MODEL_LOAD_FAILURES),
    ("memory_need_bytes", instruments.MODEL_MEMORY),
    ("gpu_memory_need_bytes", instruments.MODEL_GPU_MEMORY),
)
OF_THE_HOST = (
    ("memory_budget_bytes", instruments.MEMORY_BUDGET),
    ("memory_used_bytes", instruments.MEMORY_USED),
    ("gpu_memory_budget_bytes", instruments.GPU_MEMORY_BUDGET),
    ("gpu_memory_used_bytes", instruments.GPU_MEMORY_USED),
)


def placement_families(told: Iterable[tuple[str, EngineStatus]]) -> Iterator[Metric]:
    """`told`: (model, the supervisor's heartbeat) of every model it knows."""
    known = [(model, status) for model, status in told if not status.is_silent]
    for name, of in OF_MODELS:
        family = _family(of)
        for model, status in known:
            family.add_metric([model], _number(status, name))
        yield family
    newest = min(known, key=lambda item: item[1].age_s, default=None)
    for name, of in OF_THE_HOST:
        family = _family(of)
        if newest is not None:
            family.add_metric([], _number(newest[1], name))
        yield family


def _family(of: Instrument) -> GaugeMetricFamily | CounterMetricFamily:
    family = CounterMetricFamily if of.kind == "counter" else GaugeMetricFamily
    return family(of.name, of.help, labels=of.labels)


def _number(status: EngineStatus, name: str) -> float:
    value = status.info.get(name, 0)
    return float(value) if isinstance(value, int | float) else 0.0
