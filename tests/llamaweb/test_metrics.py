"""`/metrics`: its own token, what was counted, what is now."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.test import AsyncClient
from prometheus_client.parser import text_string_to_metric_families

from inference import api
from inference.edge.instruments import INSTRUMENTS, RequestMeter, count_rejected
from inference.protocol.events import (
    Cancelled,
    Delta,
    Failed,
    Finished,
    Started,
    Timings,
    Usage,
)
from inference.queues.contract import EngineStatus, Load
from llamaweb.lib.errors import UnavailableError
from llamaweb.lib.ids import new_id

GOOD = {"Authorization": f"Bearer {settings.METRICS_TOKEN}"}


@pytest.fixture(autouse=True)
def _one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    async def model_list() -> list[Any]:
        return [SimpleNamespace(name="starter")]

    async def model_load(model: str) -> Load:
        return Load(waiting=5, waiting_background=2, running=3, waiting_by_owner={})

    async def engine_list(model: str) -> tuple[EngineStatus, ...]:
        info = {"max_context": 8192, "rss_bytes": 1.5e9, "class": "mock"}
        return (EngineStatus("e1", "ready", 17, 3, 0.25, False, info),)

    monkeypatch.setattr(api, "model_list", model_list)
    monkeypatch.setattr(api, "model_load", model_load)
    monkeypatch.setattr(api, "engine_list", engine_list)


async def samples(name: str, /, **labels: str) -> float | None:
    """The sample of `name` with those labels, or None."""
    response = await AsyncClient().get("/metrics", headers=GOOD)
    assert response.status_code == 200
    for family in text_string_to_metric_families(response.content.decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Bearer {settings.SECRET_KEY}"}],
)
async def test_without_its_token_nothing_is_told(headers: dict[str, str]) -> None:
    response = await AsyncClient().get("/metrics", headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["type"] == "authentication_error"


async def test_the_token_in_the_address_is_no_token() -> None:
    response = await AsyncClient().get(f"/metrics?token={settings.METRICS_TOKEN}")
    assert response.status_code == 401


async def test_gauges_are_read_now() -> None:
    name = "llamaweb_requests_waiting"
    assert await samples(name, model="starter", lane="interactive") == 3
    assert await samples(name, model="starter", lane="background") == 2
    assert await samples("llamaweb_requests_running", model="starter") == 3
    engine = {"model": "starter", "engine": "e1"}
    assert await samples("llamaweb_engine_ready", **engine) == 1
    assert await samples("llamaweb_engine_steps", **engine) == 17
    assert await samples("llamaweb_engine_value", **engine, name="max_context") == 8192


async def test_what_the_supervisor_tells_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def engine_list(model: str) -> tuple[EngineStatus, ...]:
        info = {
            "loads": 3, "evictions": 2, "load_failures": 1, "memory_need_bytes": 600,
            "memory_budget_bytes": 1000, "memory_used_bytes": 700, "reason": "x",
            "gpu_memory_need_bytes": 60, "gpu_memory_budget_bytes": 100,
            "gpu_memory_used_bytes": 70,
        }  # fmt: skip
        return (EngineStatus("supervisor", "stopped", 0, 0, 0.25, False, info),)

    monkeypatch.setattr(api, "engine_list", engine_list)
    assert await samples("llamaweb_model_loads_total", model="starter") == 3
    assert await samples("llamaweb_model_evictions_total", model="starter") == 2
    assert await samples("llamaweb_model_load_failures_total", model="starter") == 1
    assert await samples("llamaweb_model_memory_bytes", model="starter") == 600
    assert await samples("llamaweb_memory_budget_bytes") == 1000
    assert await samples("llamaweb_memory_used_bytes") == 700
    assert await samples("llamaweb_model_gpu_memory_bytes", model="starter") == 60
    assert await samples("llamaweb_gpu_memory_budget_bytes") == 100
    assert await samples("llamaweb_gpu_memory_used_bytes") == 70
    supervisor = {"model": "starter", "engine": "supervisor"}
    assert await samples("llamaweb_engine_ready", **supervisor) is None  # it is no engine


async def test_without_redis_the_counters_are_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def model_list() -> list[Any]:
        raise UnavailableError("no Redis")

    monkeypatch.setattr(api, "model_list", model_list)
    reason = new_id()
    count_rejected("openai", reason)
    assert await samples("llamaweb_rejected_total", family="openai", reason=reason) == 1


async def test_a_request_is_measured_from_its_events() -> None:
    model = new_id()
    of = {"family": "anthropic", "model": model}
    meter = RequestMeter(model, "7:3:anthropic")
    assert await samples("llamaweb_api_requests_waiting", **of) == 1
    usage = Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=4)
    for event in (Started(10, 4), Delta("a", (1,)), Delta("bc", (2, 3))):
        meter.record(event)
    assert await samples("llamaweb_api_requests_waiting", **of) == 0
    assert await samples("llamaweb_api_requests_running", **of) == 1
    meter.record(Finished("stop", usage, Timings(queued_ms=1500.0)))
    meter.abandon()  # the end counts once
    assert await samples("llamaweb_api_requests_running", **of) == 0
    assert await samples("llamaweb_finished_total", **of, reason="stop") == 1
    assert await samples("llamaweb_finished_total", **of, reason="cancelled") is None
    assert await samples("llamaweb_prompt_tokens_total", **of) == 10
    assert await samples("llamaweb_cached_tokens_total", **of) == 4
    assert await samples("llamaweb_completion_tokens_total", **of) == 3
    assert await samples("llamaweb_request_queue_time_seconds_sum", **of) == 1.5
    assert await samples("llamaweb_ttft_seconds_count", **of) == 1
    assert await samples("llamaweb_itl_seconds_count", **of) == 1
    assert await samples("llamacpp:n_tokens_max", model=model) == 13


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (Failed("engine_crashed", "gone"), "error"),
        (Cancelled("user"), "cancelled"),
        (None, "cancelled"),
    ],
)
async def test_every_end_has_a_reason(end: Failed | Cancelled | None, reason: str) -> None:
    model = new_id()
    of = {"family": "openai", "model": model}
    meter = RequestMeter(model)
    if end is None:
        meter.abandon()
    else:
        meter.record(end)
    assert await samples("llamaweb_finished_total", **of, reason=reason) == 1
    assert await samples("llamaweb_api_requests_waiting", **of) == 0
    failed = await samples("llamaweb_failed_total", **of, code="engine_crashed")
    assert failed == (1 if reason == "error" else None)


async def test_what_was_not_taken_neither_waits_nor_ends() -> None:
    model = new_id()
    meter = RequestMeter(model)
    meter.refuse()
    meter.abandon()
    of = {"family": "openai", "model": model}
    assert await samples("llamaweb_api_requests_waiting", **of) == 0
    assert await samples("llamaweb_finished_total", **of, reason="cancelled") is None


async def test_llama_server_s_names_are_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def engine_list(model: str) -> tuple[EngineStatus, ...]:
        info = {
            "prompt_tokens": 90, "cached_tokens": 10, "generated_tokens": 40, "steps": 20,
            "step_s": 8.0, "decode_step_s": 5.0, "reason": "x",
        }  # fmt: skip
        two = (EngineStatus(name, "ready", 1, 0, 0.2, False, info) for name in ("e1", "e2"))
        return (*two, EngineStatus("supervisor", "ready", 1, 0, 0.2, False, {"steps": 1000}))

    monkeypatch.setattr(api, "engine_list", engine_list)
    told = {
        "prompt_tokens_total": 180,
        "prompt_tokens_cached_total": 20,
        "prompt_seconds_total": 6,
        "tokens_predicted_total": 80,
        "tokens_predicted_seconds_total": 10,
        "n_decode_total": 40,
        "prompt_tokens_seconds": 30,
        "predicted_tokens_seconds": 5,
        "requests_processing": 3,
        "requests_deferred": 5,
        "n_busy_slots_per_decode": 2,
        "spec_decode_num_drafts_total": 0,
        "spec_decode_num_draft_tokens_total": 0,
        "spec_decode_num_accepted_tokens_total": 0,
    }
    for name, value in told.items():
        assert await samples(f"llamacpp:{name}", model="starter") == value, name
    response = await AsyncClient().get("/metrics", headers=GOOD)
    assert response["Content-Type"].startswith("text/plain; version=0.0.4")
    assert abs(int(response["Process-Start-Time-Unix"]) - time.time()) < 24 * 3600


async def test_without_an_engine_nothing_is_divided_by_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def engine_list(model: str) -> tuple[EngineStatus, ...]:
        return ()

    monkeypatch.setattr(api, "engine_list", engine_list)
    assert await samples("llamacpp:prompt_tokens_seconds", model="starter") == 0


async def test_every_documented_metric_is_there() -> None:
    response = await AsyncClient().get("/metrics", headers=GOOD)
    found = {family.name for family in text_string_to_metric_families(response.content.decode())}
    assert {item.name.removesuffix("_total") for item in INSTRUMENTS} <= found


def test_processes_add_up(tmp_path: Path) -> None:
    """Two processes count into one folder; a third one tells the sum."""
    count = (
        "from inference.edge.instruments import count_rejected as c; "
        "c('openai', 'x'); c('openai', 'x')"
    )
    tell = (
        "from prometheus_client import CollectorRegistry, generate_latest\n"
        "from prometheus_client.multiprocess import MultiProcessCollector\n"
        "r = CollectorRegistry(); MultiProcessCollector(r); print(generate_latest(r).decode())"
    )
    env = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    for code in (count, count, tell):
        result = subprocess.run(
            [sys.executable, "-c", code],
            env=env,
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert 'llamaweb_rejected_total{family="openai",reason="x"} 4.0' in result.stdout
