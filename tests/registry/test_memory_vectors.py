"""The memory estimate of models that make vectors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inference.registry.gguf.facts import Tokens
from inference.registry.gguf.process import read_header
from inference.registry.memory import (
    DEFAULT_OUTPUT_BYTES,
    DEFAULT_TEXT_LEN,
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


@pytest.mark.model
def test_the_defaults_and_the_header_are_the_engines() -> None:
    from inference.engine import llama_embedding

    assert llama_embedding.DEFAULT_TEXT_LEN == DEFAULT_TEXT_LEN
    assert llama_embedding.DEFAULT_OUTPUT_BYTES == DEFAULT_OUTPUT_BYTES
    facts = read_header(find_minilm()).facts
    assert (facts.purpose, facts.pooling, facts.context_len) == ("embedding", "mean", 512)
    assert text_len(facts, SERVING) == 512
    assert read_header(find_reranker()).facts.purpose == "reranking"
