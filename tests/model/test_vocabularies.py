"""Markers of tool calls and reasoning on the vocabularies that llama.cpp carries: what is read of a
token is what was written, and closings that are forced can be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import llama_cpp
import pytest

from inference.engine.llama_log import quiet_log
from inference.engine.llama_tokenizer import LlamaTokenizer
from inference.text.answer.families import FAMILIES
from inference.text.answer.forcing import awaited_grammar
from inference.text.answer.reasoning_tags import REASONING_TAGS
from inference.text.answer.shapes import SHAPES
from inference.text.answer.tools import Tool
from inference.text.detokenizer import Detokenizer
from tests.sdist import llama_models

pytestmark = pytest.mark.model

# Those of models that write text; the others are BERT's.
NAMES = (
    *("aquila", "baichuan", "command-r", "deepseek-coder", "deepseek-llm", "falcon", "gemma-4"),
    *("gpt-2", "gpt-neox", "llama-bpe", "llama-spm", "mpt", "phi-3", "qwen2", "qwen35", "refact"),
    *("starcoder",),
)
MARKERS = sorted(
    {marker for form in FAMILIES.values() for marker in form.markers}
    | {tag for tags in REASONING_TAGS for tag in (tags.opener, tags.closer)}
)
TEXT = '{"city": "Zürich 😺", "note": "a\\nb \\"c\\" 漢字"}'
TOOL = Tool("get_weather", {"type": "object", "properties": {"city": {"type": "string"}}})


@pytest.fixture(scope="module", params=NAMES)
def tokenizer(request: pytest.FixtureRequest) -> Iterator[LlamaTokenizer]:
    quiet_log()
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    path = llama_models() / f"ggml-vocab-{request.param}.gguf"
    model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
    assert model
    yield LlamaTokenizer(model, max_context=100_000)
    llama_cpp.llama_model_free(model)


def said(tokenizer: LlamaTokenizer, text: str, **options: Any) -> str:
    """What readers see if a model writes the tokens of `text`."""
    detokenizer = Detokenizer()
    tokens = tokenizer.tokenize(text, add_special=False, parse_special=True, **options)
    pieces = [tokenizer.piece(token, special=True) for token in tokens]
    return "".join(map(detokenizer.push, pieces)) + detokenizer.flush()


def test_markers_survive(tokenizer: LlamaTokenizer) -> None:
    for marker in MARKERS:
        assert _plain(said(tokenizer, marker)) == _plain(marker)


def test_a_call_survives_between_its_markers(tokenizer: LlamaTokenizer) -> None:
    for form in FAMILIES.values():
        for opener in form.calls_by_opener:
            call = f"{opener}{TEXT}{''.join(form.closers)}"
            text = said(tokenizer, call)
            assert _plain(text).replace(" ", "") == _plain(call).replace(" ", "")


def test_every_family_knows_its_calls_by_tokens_of_its_own(tokenizer: LlamaTokenizer) -> None:
    """Whatever of its markers the vocabulary has as tokens."""

    def special(text: str) -> int | None:
        tokens = tokenizer.tokenize(text, add_special=False, parse_special=True)
        is_special = len(tokens) == 1 and not tokenizer.piece(tokens[0])
        return tokens[0] if is_special else None

    for form in FAMILIES.values():
        grammar = awaited_grammar(form, [TOOL], special=special)
        if not SHAPES[form.family][0].awaits:
            assert grammar is None
            continue
        assert grammar is not None
        assert all(said(tokenizer, trigger.value) for trigger in grammar.triggers)


def _plain(text: str) -> str:
    """Some vocabularies begin every text with a space, and write spaces as `▁`, which stands in the
    markers of others."""
    return text.replace("▁", " ").strip(" ")
