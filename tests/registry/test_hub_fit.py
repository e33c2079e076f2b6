"""Whether a model on a hub fits into this machine, told from the beginning of its file."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from inference.registry import hub_header
from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.facts import GgufFacts
from inference.registry.hub import hub_repo
from inference.registry.hub_fit import MIN_CONTEXT_LEN, Fit, Memory, fit_of, fits_of, new_serving
from inference.registry.hub_header import hub_facts, scaled
from inference.registry.memory import Serving, estimate
from llamaweb.lib.errors import FailedError, InvalidError
from llamaweb.lib.outbound import UnreachableError
from tests.registry.gguf_files import model, shards, values, whole
from tests.registry.hub_source import Hub, entry

SERVING = Serving(num_slots=2)
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    hub_header._read.cache_clear()


def facts_at(hub: Hub, path: str = "") -> GgufFacts:
    choices = [c for c in hub_repo(hub.repo).choices if not path or c.path == path]
    assert choices[0].model is not None
    return hub_facts(choices[0].model)


def test_only_the_beginning_of_a_file_is_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_header, "STEPS", (4096, 16_384, 65_536))
    body = model(num_values=500_000)
    hub.add(**{"t-Q4_K_M.gguf": body})
    facts = facts_at(hub)
    assert (facts.architecture, facts.context_len, facts.size) == ("llama", 2048, len(body))
    assert hub.source.asked[-1]["range"] == "bytes=0-65535"
    num_asked = len(hub.source.asked)
    assert facts_at(hub) == facts
    assert len(hub.source.asked) == num_asked + 2  # the listing; the header is known


def test_a_long_header_takes_more_pieces(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_header, "STEPS", (1024, 8192, 262_144))
    words = [f"token{no}" for no in range(5000)]
    hub.add(**{"t-Q4_K_M.gguf": whole(values() | {"tokenizer.ggml.tokens": words})})
    assert facts_at(hub).tokens.num == 5000
    monkeypatch.setattr(hub_header, "STEPS", (1024, 8192))
    hub_header._read.cache_clear()
    with pytest.raises(GgufError):
        facts_at(hub)


def test_a_hub_that_ignores_ranges(hub: Hub) -> None:
    hub.source.ranges = False
    hub.add(**{"t-Q4_K_M.gguf": model()})
    assert facts_at(hub).architecture == "llama"


def test_all_shards_count(hub: Hub) -> None:
    bodies = shards(2)
    hub.add(**{f"t-Q4_K_M-0000{no}-of-00002.gguf": body for no, body in enumerate(bodies, 1)})
    assert facts_at(hub).size == sum(map(len, bodies))


def test_what_is_no_model(hub: Hub) -> None:
    hub.add(**{"t-Q4_K_M.gguf": os.urandom(5000)})
    with pytest.raises(GgufError, match="not a GGUF file"):
        facts_at(hub)
    hub.listed = [entry("u-Q4_K_M.gguf", b"x", lfs={"oid": "a" * 64, "size": 2**30})]
    hub.source.files[hub.path_of("u-Q4_K_M.gguf")] = model()
    hub.publish()
    with pytest.raises(UnreachableError, match="less than it says"):
        facts_at(hub)
    hub.source.at[hub.path_of("u-Q4_K_M.gguf")] = (403, {})
    with pytest.raises(InvalidError, match="LLAMAWEB_HUB_TOKEN"):
        facts_at(hub)


def test_a_full_disk_is_said(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    hub.add(**{"t-Q4_K_M.gguf": model()})
    (choice,) = hub_repo(hub.repo).choices
    assert choice.model is not None
    monkeypatch.setattr(hub_header.tempfile, "TemporaryFile", full)
    with pytest.raises(FailedError, match="No space left on device"):
        hub_facts(choice.model)
    found = fits_of([choice.model], SERVING, Memory())[choice.path]
    assert found == "its beginning can't be kept here: No space left on device"


def test_choices_say_what_can_not_be_fetched(hub: Hub, settings: Any) -> None:
    settings.DOWNLOAD_MAX_BYTES = 1000
    hub.listed = [
        entry("t-Q8_0.gguf", b"x" * 2000),
        entry("t-Q4_K_M.gguf", b"x" * 500),
        entry("t-Q2_K-00001-of-00002.gguf", b"x" * 100),
        entry("t-F16-00001-of-00002.gguf", b"x" * 300),
        entry("t-F16-00002-of-00002.gguf", b"x" * 300),
        entry("mmproj-F16.gguf", b"x" * 7),
    ]
    hub.publish()
    choices = {choice.quant: choice for choice in hub_repo(hub.repo).choices}
    assert list(choices) == ["Q4_K_M", "F16", "Q2_K", "Q8_0"]
    model_of = {name: choice.model for name, choice in choices.items()}
    assert model_of["Q4_K_M"] is not None
    assert (model_of["Q4_K_M"].size, model_of["Q4_K_M"].mmproj is not None) == (507, True)
    assert model_of["F16"] is not None
    assert len(model_of["F16"].files) == 2
    assert "lacks t-Q2_K-00002-of-00002.gguf" in choices["Q2_K"].problem
    assert "LLAMAWEB_DOWNLOAD_MAX_BYTES" in choices["Q8_0"].problem


def a_model(hub: Hub) -> GgufFacts:
    entries = values(**{"llama.context_length": 32_768, "llama.feed_forward_length": 256})
    hub.add(**{"t-Q4_K_M.gguf": whole(entries, {"blk.0.w": 4096, "blk.1.w": 4096, "output.w": 64})})
    return scaled(facts_at(hub), 100 * MIB)


def test_it_fits(hub: Hub) -> None:
    facts = a_model(hub)
    need = estimate(facts, SERVING).host_bytes
    for left in (None, need):
        fit = fit_of(facts, SERVING, Memory(left))
        assert (fit.kind, fit.need_bytes, fit.context_len) == ("fits", need, 0)


def test_it_fits_with_less_context(hub: Hub) -> None:
    facts = a_model(hub)
    left = estimate(facts, SERVING).host_bytes - 1
    fit = fit_of(facts, SERVING, Memory(left))
    assert (fit.kind, fit.context_len) == ("shorter", 8192 - 256)
    assert fit.need_bytes <= left
    least = estimate(facts, Serving(num_slots=2, context_len=MIN_CONTEXT_LEN)).host_bytes
    fit = fit_of(facts, SERVING, Memory(least))
    assert (fit.kind, fit.context_len, fit.need_bytes) == ("shorter", MIN_CONTEXT_LEN, least)


def test_it_is_too_large(hub: Hub) -> None:
    facts = a_model(hub)
    least = estimate(facts, Serving(num_slots=2, context_len=MIN_CONTEXT_LEN)).host_bytes
    fit = fit_of(facts, SERVING, Memory(least - 1000))
    assert (fit.kind, fit.over_bytes, fit.context_len) == ("too_large", 1000, 0)
    assert fit_of(facts, SERVING, Memory(0)).over_bytes == least


def test_what_lies_on_a_gpu(hub: Hub) -> None:
    facts, serving = a_model(hub), Serving(num_slots=2, gpu_layers=-1)
    need = estimate(facts, serving)
    host, device = need.host_bytes, need.device_bytes
    assert fit_of(facts, serving, Memory(host)).kind == "fits"  # of GPUs nobody can tell
    assert fit_of(facts, serving, Memory(host, device)) == Fit("fits", host, device)
    fit = fit_of(facts, serving, Memory(host, device - 1))
    assert (fit.kind, fit.context_len) == ("shorter", 8192 - 256)
    fit = fit_of(facts, serving, Memory(None, 0))
    assert (fit.kind, fit.over_bytes) == ("too_large", fit.device_bytes)
    assert fit_of(facts, SERVING, Memory(None, 0)).kind == "fits"  # nothing of it lies there


def test_what_lies_on_a_gpu_without_memory_of_its_own(hub: Hub) -> None:
    facts, serving = a_model(hub), Serving(num_slots=2, gpu_layers=-1)
    need = estimate(facts, serving)
    both = need.host_bytes + need.device_bytes
    assert fit_of(facts, serving, Memory(both, is_shared=True)) == Fit("fits", both)
    assert fit_of(facts, serving, Memory(both - 1, is_shared=True)).kind == "shorter"


def test_vectors_count_where_a_budget_is_kept(hub: Hub) -> None:
    facts, serving = a_model(hub), Serving(num_slots=2, gpu_layers=-1)
    need = estimate(facts, serving)
    vectors = need.part("vectors")
    assert vectors.host
    assert vectors.device
    host, device = need.host_bytes - vectors.host, need.device_bytes - vectors.device
    loaded = Memory(host, device, host_vectors=False, gpu_vectors=False)
    assert fit_of(facts, serving, loaded) == Fit("fits", host, device)
    assert fit_of(facts, serving, Memory(host, need.device_bytes)).kind != "fits"
    assert fit_of(facts, serving, Memory(need.host_bytes, device)).kind != "fits"
    shared = Memory(host + device, is_shared=True, host_vectors=False)
    assert fit_of(facts, serving, shared) == Fit("fits", host + device)


def test_a_larger_quantization_of_the_same_model(hub: Hub) -> None:
    facts = a_model(hub)
    larger = scaled(facts, 200 * MIB)
    assert larger.layers == facts.layers
    need, more = (estimate(each, SERVING) for each in (facts, larger))
    assert more.part("weights").host - need.part("weights").host == 100 * MIB
    assert more.part("kv") == need.part("kv")
    whole_gpu = Serving(num_slots=2, gpu_layers=-1)
    assert estimate(larger, whole_gpu).device_bytes > estimate(facts, whole_gpu).device_bytes


def test_how_a_new_model_is_served(settings: Any) -> None:
    settings.ENGINE_SLOTS, settings.GPU_LAYERS, settings.ENGINE_CACHE_MIB = 3, -1, 50
    assert (new_serving(has_cache=True).num_slots, new_serving(has_cache=True).gpu_layers) == (
        3,
        -1,
    )
    assert new_serving(has_cache=True).cache_bytes == 50 * MIB
    assert new_serving(has_cache=False).cache_bytes == 0
    assert new_serving(has_cache=False, has_gpu=False).gpu_layers == 0
