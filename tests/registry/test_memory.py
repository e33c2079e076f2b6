"""The memory estimate: its arithmetic, and against what llama.cpp really allocates."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.engine.starter import find_starter_model
from inference.registry.gguf.facts import GgufFacts, Tokens, Weights
from inference.registry.gguf.layers import Heads, Layers
from inference.registry.gguf.process import read_header
from inference.registry.memory import DEFAULT_CONTEXT_LEN, FLASH_MIN_HEAD_LEN, Serving, estimate
from tests.gemma import find_gemma

MIB = 1 << 20
SMALL = GgufFacts(
    kind="model",
    version=3,
    size=1000,
    context_len=4096,
    embedding_len=64,
    feed_forward_len=256,
    heads=Heads(4, 2, 32, 32, 512),
    layers=Layers((64, 64), (64, 64), (True, False), (0, 0), 64),
    tokens=Tokens(num=100),
    weights=Weights(layer_bytes=(300, 300), input_bytes=200, other_bytes=20),
)
PLAIN = Serving(num_slots=2, context_len=1024)


def kv(serving: Serving, facts: GgufFacts = SMALL) -> int:
    part = estimate(facts, serving).part("kv")
    return part.host + part.device


def test_every_slot_has_its_cells() -> None:
    assert kv(PLAIN) == 2 * 2 * 1024 * (64 + 64) * 2
    assert kv(replace(PLAIN, num_slots=4)) == 2 * kv(PLAIN)
    assert kv(replace(PLAIN, context_len=1025)) == kv(replace(PLAIN, context_len=1280))


def test_a_pool_is_shared() -> None:
    assert kv(replace(PLAIN, kv_unified=True)) == kv(PLAIN) // 2
    assert kv(replace(PLAIN, kv_unified=True, pool_contexts=2)) == kv(PLAIN)


def test_no_more_than_the_model_was_trained_for() -> None:
    most = estimate(SMALL, replace(PLAIN, context_len=1 << 20))
    assert most.num_cells == 4096
    assert estimate(SMALL, replace(PLAIN, context_len=0)).num_cells == 4096
    unknown = replace(SMALL, context_len=0)
    assert estimate(unknown, replace(PLAIN, context_len=0)).num_cells == DEFAULT_CONTEXT_LEN


def test_packed_keys_and_values() -> None:
    packed = replace(PLAIN, cache_type_k="q8_0", cache_type_v="q4_0", flash_attention="on")
    assert kv(packed) == 2 * 2 * 1024 * (64 // 32 * 34 + 64 // 32 * 18)


def test_a_window_keeps_less_only_if_it_may() -> None:
    assert SMALL.heads.window_len == 512
    full = replace(PLAIN, context_len=4096)
    narrow = replace(full, swa_full=False)
    assert kv(narrow) == kv(full) // 2 * (4096 + 1024) // 4096


def test_values_lie_in_rows_of_one_length_without_flash_attention() -> None:
    uneven = replace(SMALL, layers=replace(SMALL.layers, values=(32, 64)))
    assert kv(replace(PLAIN, flash_attention="off"), uneven) == kv(PLAIN)
    assert kv(replace(PLAIN, flash_attention="on"), uneven) == kv(PLAIN) * 7 // 8


def test_a_state_is_of_each_slot() -> None:
    layers = Layers((64, 0), (64, 0), (False, False), (0, 500), 64)
    found = estimate(replace(SMALL, layers=layers), PLAIN)
    assert found.part("state").host == 500 * 4 * 2
    assert found.part("kv").host == kv(PLAIN) // 2


def test_layers_on_a_device_leave_the_host() -> None:
    host = estimate(SMALL, PLAIN)
    all_of_it = estimate(SMALL, replace(PLAIN, gpu_layers=-1, flash_attention="off"))
    one = estimate(SMALL, replace(PLAIN, gpu_layers=1, flash_attention="off"))
    two = estimate(SMALL, replace(PLAIN, gpu_layers=2, flash_attention="off"))
    assert (host.device_bytes, host.part("weights").host) == (0, 1000)
    assert (all_of_it.part("weights").host, all_of_it.part("weights").device) == (400, 800)
    assert (one.part("weights").device, one.part("kv").device) == (200, 0)
    assert (two.part("weights").device, two.part("kv").device) == (500, kv(PLAIN) // 2)
    assert two.part("kv").host == kv(PLAIN) // 2


def test_the_prompt_cache_comes_later() -> None:
    found = estimate(SMALL, replace(PLAIN, cache_bytes=7 * MIB, adapter_bytes=3))
    assert found.host_bytes - found.loaded_bytes == 7 * MIB + found.part("vectors").host
    assert found.part("adapters").host == 3


@pytest.mark.model
def test_the_defaults_are_the_engines() -> None:
    from inference.engine import llama_load

    assert llama_load.DEFAULT_CONTEXT_LEN == DEFAULT_CONTEXT_LEN
    assert llama_load.FLASH_MIN_HEAD_LEN == FLASH_MIN_HEAD_LEN


LOAD = """
import json, logging, re, sys
from inference.engine.factory import build_engine
from inference.protocol.spec import EngineSpec
from inference.worker.vitals import memory_bytes
from tests.engine.driving import ask
import dataclasses

lines = []
class Keep(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())
logging.getLogger("llama.cpp").setLevel(logging.DEBUG)
logging.getLogger("llama.cpp").addHandler(Keep())
fields = json.loads(sys.argv[1])
spec = EngineSpec(engine_id="e", redis_url="", redis_prefix="", model="m", **fields)
import inference.engine.llama_backend
before = memory_bytes()
engine, _ = build_engine(spec)
for slot in range(spec.num_slots):
    tokens = tuple(range(5 + slot, engine.max_context // 2 + slot))
    engine.add(dataclasses.replace(ask(f"g{slot}", "-"), tokens=tokens))
for _ in range(64):
    engine.step()
kv = [float(m[1]) for line in lines if (m := re.search(r"KV buffer size = *([\\d.]+) MiB", line))]
print(json.dumps({"kv": kv, "grown": memory_bytes() - before}))
"""


def really(path: Path, **fields: Any) -> dict[str, Any]:
    """What an engine in a process of its own allocates and grows by."""
    spec = json.dumps({"model_path": str(path), "threads": 1, **fields})
    done = subprocess.run(
        [sys.executable, "-c", LOAD, spec], capture_output=True, timeout=110, check=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


CASES: dict[str, dict[str, Any]] = {
    "slots": {"num_slots": 2, "context_len": 512},
    "pool": {"num_slots": 2, "context_len": 512, "kv_unified": True},
    "packed": {
        "num_slots": 2,
        "context_len": 600,
        "cache_type_k": "q8_0",
        "cache_type_v": "q8_0",
        "flash_attention": "on",
    },
}


@pytest.mark.model
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", ["starter", "gemma"])
def test_against_a_real_engine(name: str, case: str) -> None:
    path = find_gemma() if name == "gemma" else find_starter_model()
    assert path is not None
    fields = CASES[case]
    found = estimate(read_header(path).facts, Serving(**fields))
    real = really(path, **fields)
    assert found.part("kv").host == pytest.approx(sum(real["kv"]) * MIB, abs=0.02 * MIB)
    grown = found.loaded_bytes - found.part("process").host
    assert grown == pytest.approx(real["grown"], rel=0.2)
