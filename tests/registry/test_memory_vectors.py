"""The memory estimate of what makes vectors: models made for it, and others' second context."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from inference.engine.starter import find_starter_model
from inference.registry.gguf.facts import Tokens
from inference.registry.gguf.layers import Layers
from inference.registry.gguf.process import read_header
from inference.registry.memory import (
    DEFAULT_OUTPUT_BYTES,
    DEFAULT_TEXT_LEN,
    MAX_STATES,
    Serving,
    estimate,
    text_len,
)
from tests.minilm import find_minilm, find_reranker
from tests.registry.test_memory import SMALL

BERT = replace(SMALL, purpose="embedding", architecture="bert", pooling="mean")
CAUSAL = replace(SMALL, purpose="embedding", architecture="qwen3", pooling="last")
SERVING = Serving(num_slots=2, ubatch_len=512)


def test_an_encoder_keeps_nothing_and_has_no_slots() -> None:
    found = estimate(BERT, SERVING)
    assert found.part("kv").host == 0
    assert found.part("output").host == DEFAULT_TEXT_LEN * (100 + 64) * 4
    assert found == estimate(BERT, replace(SERVING, num_slots=8))


def test_the_longest_text_is_the_batch() -> None:
    assert text_len(BERT, SERVING) == DEFAULT_TEXT_LEN
    assert text_len(BERT, replace(SERVING, context_len=3000)) == 3000
    assert text_len(replace(BERT, context_len=700), SERVING) == 700
    assert text_len(replace(BERT, context_len=256), SERVING) == 512
    many = replace(BERT, tokens=Tokens(num=250_000))
    assert text_len(many, SERVING) == DEFAULT_OUTPUT_BYTES // (4 * 250_000)


def test_what_reads_on_holds_a_whole_text() -> None:
    found = estimate(CAUSAL, replace(SERVING, context_len=4096))
    assert found.part("kv").host == 2 * 4096 * (64 + 64) * 2
    assert found.part("output").host == 512 * (100 + 64) * 4


def test_what_an_administrator_says_of_pooling_counts() -> None:
    assert estimate(CAUSAL, replace(SERVING, pooling="mean")) == estimate(
        replace(CAUSAL, pooling="mean"), SERVING
    )
    last = replace(SERVING, pooling="last")
    assert estimate(replace(CAUSAL, pooling="mean"), last) == estimate(CAUSAL, SERVING)
    assert estimate(BERT, last) == estimate(BERT, SERVING)  # it looks both ways all the same


def test_a_head_for_scores_is_used_also_where_the_file_does_not_say_so() -> None:
    silent = replace(CAUSAL, purpose="reranking", pooling="mean")
    assert estimate(silent, SERVING) == estimate(replace(silent, pooling="rank"), SERVING)
    assert estimate(silent, replace(SERVING, pooling="mean")) != estimate(silent, SERVING)


def test_a_model_of_answers_has_a_second_context_once_it_is_asked() -> None:
    found = estimate(SMALL, SERVING)
    part = found.part("vectors")
    cells = 2 * 512 * (64 + 64) * 2
    results = 512 * (100 + 64) * 4
    alone = estimate(SMALL, replace(SERVING, num_slots=1, context_len=512))
    assert part.host == cells + results + alone.part("compute").host
    assert found.host_bytes - found.loaded_bytes == part.host
    whole = estimate(SMALL, replace(SERVING, pooling="last", context_len=4096))
    assert whole.part("vectors").host > part.host + 2 * (4096 - 512) * (64 + 64) * 2 - 1


def test_states_are_of_each_text_that_is_computed_at_once() -> None:
    layers = Layers((64, 0), (64, 0), (False, False), (0, 500), 64)
    mixed = estimate(replace(SMALL, layers=layers), SERVING)
    plain = estimate(replace(SMALL, layers=replace(layers, state=(0, 0))), SERVING)
    more = mixed.part("vectors").host - plain.part("vectors").host
    assert more == 500 * 4 * MAX_STATES


def test_the_second_context_lies_where_the_layers_do() -> None:
    part = estimate(SMALL, replace(SERVING, gpu_layers=-1)).part("vectors")
    assert part.host == 512 * (100 + 64) * 4  # the results
    assert part.device > 0


VECTORS = """
import json, sys
from inference.engine.embedding import Piece
from inference.engine.whole import build_whole
from inference.protocol.spec import EngineSpec
from inference.worker.vitals import memory_bytes

fields = json.loads(sys.argv[1])
spec = EngineSpec(engine_id="e", redis_url="", redis_prefix="", model="m", **fields)
engine = build_whole(spec).engine
before = memory_bytes()
tokens = tuple(range(5, 5 + fields["ubatch_len"]))
assert len(engine._embedder._backend.compute([Piece(tokens)], "embed")) == 1
print(memory_bytes() - before)
"""


@pytest.mark.model
@pytest.mark.parametrize("ubatch_len", [128, 512])
def test_the_second_context_against_a_real_one(ubatch_len: int) -> None:
    path = find_starter_model()
    assert path is not None
    fields = {"num_slots": 2, "context_len": 512, "ubatch_len": ubatch_len}
    spec = json.dumps({"model_path": str(path), "threads": 1, **fields})
    done = subprocess.run(
        [sys.executable, "-c", VECTORS, spec], capture_output=True, timeout=110, check=True
    )
    expected = estimate(read_header(path).facts, Serving(**fields)).part("vectors").host
    assert expected == pytest.approx(int(done.stdout), rel=0.2)


@pytest.mark.model
def test_the_defaults_and_the_header_are_the_engines() -> None:
    from inference.engine import llama_embedding

    assert llama_embedding.MAX_STATES == MAX_STATES
    assert llama_embedding.DEFAULT_TEXT_LEN == DEFAULT_TEXT_LEN
    assert llama_embedding.DEFAULT_OUTPUT_BYTES == DEFAULT_OUTPUT_BYTES
    facts = read_header(find_minilm()).facts
    assert (facts.purpose, facts.pooling, facts.context_len) == ("embedding", "mean", 512)
    assert text_len(facts, SERVING) == 512
    assert read_header(find_reranker()).facts.purpose == "reranking"
