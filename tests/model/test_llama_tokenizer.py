"""Any text tokenises as llama.cpp does it, and none keeps it busy for long."""

from __future__ import annotations

import random
import time

import llama_cpp
import pytest

from inference.engine.engine import Engine
from inference.engine.llama_tokenizer import LlamaTokenizer
from inference.text.special_cuts import MAX_SPECIALS
from llamaweb.lib.errors import TooLongError

pytestmark = pytest.mark.model

CONTEXT = 8192
LONG_BYTES = 4 * 1024 * 1024
DEADLINE_S = 20.0  # quadratic work takes minutes
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<file_sep>", "<filename>"]
WORDS = ["hello", " world", " ", "  ", "\n", "\t\n ", "a", "1", ".", "漢字", "é", "😺", "\x00"]
UNITS = ["<|im_start|>", "<|im_end|>\n", "<|", "a", "\n", "1", "漢", "ab", "hello "]
CRUMBS = ["<|", "im_start", "|>", "<", "file_sep>", "<|im_start|", "|im_end|>"]


@pytest.fixture(scope="module")
def tokenizer(loaded_engine: Engine) -> LlamaTokenizer:
    return LlamaTokenizer(loaded_engine._backend._model, max_context=CONTEXT)  # type: ignore[attr-defined]


def reference(tokenizer: LlamaTokenizer, text: str, add: bool, parse: bool) -> list[int]:
    data = text.encode()
    room = len(data) + 8
    tokens = (llama_cpp.llama_token * room)()
    num = llama_cpp.llama_tokenize(tokenizer._vocab, data, len(data), tokens, room, add, parse)
    return tokens[:num]


@pytest.mark.parametrize("seed", range(60))
def test_tokens_are_llama_cpps(tokenizer: LlamaTokenizer, seed: int) -> None:
    rng = random.Random(seed)
    share = rng.choice([0.0, 0.3, 0.9])  # of special tokens
    length = rng.choice([0, 1, 5, 50, 2000])
    text = "".join(
        rng.choice(SPECIALS if rng.random() < share else WORDS + CRUMBS) for _ in range(length)
    )
    for add in (False, True):
        for parse in (False, True):
            ours = tokenizer.tokenize(text, add_special=add, parse_special=parse)
            assert ours == reference(tokenizer, text, add, parse)


@pytest.fixture
def calls(tokenizer: LlamaTokenizer, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What llama.cpp is given."""
    seen: list[bytes] = []
    plain = tokenizer._call

    def call(data: bytes, add_special: bool, parse_special: bool) -> list[int]:
        seen.append(data)
        return plain(data, add_special, parse_special)

    monkeypatch.setattr(tokenizer, "_call", call)
    return seen


@pytest.mark.parametrize(
    ("unit", "num_bytes"),
    [(unit, size) for unit in UNITS for size in (400_000, LONG_BYTES)]
    + [(" ", LONG_BYTES), (".", LONG_BYTES)],  # 400,000 of these have few tokens and may fit
)
def test_a_prompt_far_too_long_is_refused_before_it_is_read(
    tokenizer: LlamaTokenizer, calls: list[bytes], unit: str, num_bytes: int
) -> None:
    text = unit * (num_bytes // len(unit.encode()))
    started_ts = time.monotonic()
    with pytest.raises(TooLongError) as caught:
        tokenizer.tokenize(text, add_special=True, parse_special=True, as_prompt=True)
    assert time.monotonic() - started_ts < DEADLINE_S
    assert caught.value.at_least
    assert "at least" in caught.value.message
    assert caught.value.prompt_tokens >= CONTEXT
    assert sum(map(len, calls)) <= num_bytes / 2
    if num_bytes < LONG_BYTES:  # what is claimed is true
        whole = tokenizer.tokenize(text, add_special=True, parse_special=True)
        assert caught.value.prompt_tokens <= len(whole)


def test_many_special_tokens_come_in_pieces(tokenizer: LlamaTokenizer, calls: list[bytes]) -> None:
    unit = b"<|im_start|>"
    text = unit.decode() * (LONG_BYTES // len(unit))
    started_ts = time.monotonic()
    tokens = tokenizer.tokenize(text, add_special=True, parse_special=True)
    assert time.monotonic() - started_ts < DEADLINE_S
    assert len(tokens) == LONG_BYTES // len(unit)
    assert max(piece.count(unit) for piece in calls) <= MAX_SPECIALS


@pytest.mark.parametrize(("num", "fits"), [(CONTEXT - 1, True), (CONTEXT, False)])
@pytest.mark.parametrize("unit", ["1", "<|im_end|>"])
def test_the_border_is_exact(tokenizer: LlamaTokenizer, num: int, fits: bool, unit: str) -> None:
    arguments = {"add_special": True, "parse_special": True, "as_prompt": True}
    if fits:
        assert len(tokenizer.tokenize(unit * num, **arguments)) == num
        return
    with pytest.raises(TooLongError) as caught:
        tokenizer.tokenize(unit * num, **arguments)
    assert (caught.value.prompt_tokens, caught.value.at_least) == (num, False)
