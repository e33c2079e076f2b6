"""`/metrics` for Prometheus, behind a token of its own.

What the web processes counted, plus what queue and engines say at this moment.
"""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from inference import api
from inference.edge import instruments
from inference.edge.engine_numbers import ENGINE_NUMBERS, EngineNumber
from inference.edge.errors import error_reply
from inference.edge.peer_numbers import peer_families
from inference.edge.placement_numbers import placement_families
from inference.queues.contract import SUPERVISOR_ID, EngineStatus, Load
from llamaweb.accounts.auth import presented_key
from llamaweb.lib.errors import AuthenticationError, UnavailableError
from llamaweb.lib.instrument import Instrument

STARTED_AT = int(time.time())  # of this process


@dataclass(frozen=True, slots=True)
class Reading:
    """Queue and engines of one model, now."""

    model: str
    load: Load
    engines: tuple[EngineStatus, ...]


async def metrics(request: HttpRequest) -> HttpResponse:
    """The text format; 401 without `Authorization: Bearer LLAMAWEB_METRICS_TOKEN`."""
    token = presented_key(request).encode("utf-8", "replace")
    if not hmac.compare_digest(token, settings.METRICS_TOKEN.encode()):
        reply = error_reply(AuthenticationError("Invalid metrics token"))
        return JsonResponse(reply.body, status=reply.status, headers=reply.headers)
    try:
        readings = await _readings()
    except UnavailableError:
        readings = ()  # what was counted is told even when Redis is away
    text = await sync_to_async(_counted, thread_sensitive=False)()
    headers = {"Cache-Control": "no-store", "Process-Start-Time-Unix": str(STARTED_AT)}
    return HttpResponse(
        text + _current(readings), content_type=CONTENT_TYPE_PLAIN_0_0_4, headers=headers
    )


async def _readings() -> tuple[Reading, ...]:
    found = []
    for model in await api.model_list():
        load, engines = await api.model_load(model.name), await api.engine_list(model.name)
        found.append(Reading(model.name, load, engines))
    return tuple(found)


def _counted() -> bytes:
    """Counters and histograms of all web processes, or of this one alone."""
    folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
    if not folder:
        return generate_latest(REGISTRY)
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


class _Current:
    """A collector of gauges that were read already."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self.readings = tuple(readings)

    def collect(self) -> Iterator[Metric]:
        """All families; called once by the registry."""
        waiting, running = _gauge(instruments.WAITING), _gauge(instruments.RUNNING)
        ready, steps = _gauge(instruments.ENGINE_READY), _gauge(instruments.ENGINE_STEPS)
        numbers = {number.name: _engine_family(number) for number in ENGINE_NUMBERS}
        told: list[tuple[str, EngineStatus]] = []
        age, value = _gauge(instruments.ENGINE_AGE), _gauge(instruments.ENGINE_VALUE)
        for reading in self.readings:
            load = reading.load
            in_background = load.waiting_background
            waiting.add_metric([reading.model, "interactive"], load.waiting - in_background)
            waiting.add_metric([reading.model, "background"], in_background)
            running.add_metric([reading.model], load.running)
            for engine in reading.engines:
                if engine.engine_id == SUPERVISOR_ID:
                    told.append((reading.model, engine))
                    continue
                labels = [reading.model, engine.engine_id]
                ready.add_metric(labels, float(engine.state == "ready"))
                steps.add_metric(labels, engine.steps)
                age.add_metric(labels, engine.age_s)
                for name, number in sorted(engine.info.items()):
                    if not isinstance(number, str):
                        value.add_metric([*labels, name], float(number))
                        if name in numbers:
                            numbers[name].add_metric(labels, float(number))
        yield from (waiting, running, ready, steps, age, value)
        yield from numbers.values()
        yield from placement_families(told)
        yield from peer_families((one.model, _peer_numbers(one)) for one in self.readings)


def _peer_numbers(reading: Reading) -> dict[str, float]:
    """The numbers of all engines of a model, added."""
    load = reading.load
    sums = {"processing": float(load.running), "deferred": float(load.waiting)}
    for engine in reading.engines:
        if engine.engine_id != SUPERVISOR_ID:
            for name, number in engine.info.items():
                if not isinstance(number, str):
                    sums[name] = sums.get(name, 0.0) + float(number)
    return sums


def _current(readings: Iterable[Reading]) -> bytes:
    registry = CollectorRegistry()
    registry.register(_Current(readings))
    return generate_latest(registry)


def _engine_family(number: EngineNumber) -> GaugeMetricFamily | CounterMetricFamily:
    of = number.instrument
    family = CounterMetricFamily if number.kind == "counter" else GaugeMetricFamily
    return family(of.name, of.help, labels=of.labels)


def _gauge(of: Instrument) -> GaugeMetricFamily:
    return GaugeMetricFamily(of.name, of.help, labels=of.labels)
