"""Prompts with a gap: what stands where, and what is left out of long ones."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.protocol.requests import InfillFile, InfillPrompt
from inference.text.chat_renderer import ChatRenderer, InProcessRenderer
from inference.text.infill import NUM_MARKS, WINDOW_LEN, infill_tokens
from inference.text.prompts import TextPipeline
from inference.text.tokenizer import InfillTokens
from llamaweb.lib.errors import NotSupportedError, TooLongError
from tests.text.byte_tokenizer import BOS, ByteTokenizer

WORDS = st.text("abc\n", max_size=40)
FILES = st.lists(st.builds(InfillFile, st.sampled_from(["a", "b.py"]), WORDS), max_size=4)


class RepositoryTokenizer(ByteTokenizer):
    """Also marks the repository and its files."""

    infill_tokens = InfillTokens(1, 2, 3, repository=4, file=5)


class TextOnlyTokenizer(ByteTokenizer):
    """Knows no gaps."""

    infill_tokens = None


def shown(
    prompt: InfillPrompt,
    tokenizer: ByteTokenizer | None = None,
    *,
    max_context: int = 4096,
    max_tokens: int | None = None,
) -> str:
    """The prompt's text; marks are control characters, the beginning is `^`."""
    found = infill_tokens(
        prompt, tokenizer or ByteTokenizer(), max_context=max_context, max_tokens=max_tokens
    )
    assert found[0] == BOS
    return bytes(ord("^") if token == BOS else token for token in found).decode()


def test_the_gap_stands_between_prefix_and_suffix() -> None:
    assert shown(InfillPrompt("def f(", "):")) == "^\x01def f(\x02):\x03"


def test_what_was_begun_stands_behind_the_prefix() -> None:
    assert shown(InfillPrompt("ab", "ef", begun="cd")) == "^\x01abcd\x02ef\x03"


def test_files_come_first_under_their_names() -> None:
    prompt = InfillPrompt("x", "y", extra=(InfillFile("a.py", "A"), InfillFile("b.py", "B")))
    assert shown(prompt, RepositoryTokenizer()) == (
        "^\x04repository\n\x05a.py\nA\x05b.py\nB\x05file\n\x01x\x02y\x03"
    )


def test_without_marks_for_files_a_line_parts_them() -> None:
    prompt = InfillPrompt("x", "y", extra=(InfillFile("a.py", "A"), InfillFile("b.py", "B")))
    line = "\n\n--- snippet ---\n\n"
    assert shown(prompt) == f"^{line}A{line}B\x01x\x02y\x03"


def test_marks_in_texts_are_text() -> None:
    assert shown(InfillPrompt("<s>", "")).count("^") == 1


def test_what_is_nearest_to_the_gap_is_kept() -> None:
    text = shown(InfillPrompt("a" * 500 + "b" * 90, "c" * 20 + "d" * 500), max_context=256)
    prefix, suffix = text[2:].split("\x02")
    assert prefix == "a" * 6 + "b" * 90  # 96 of the 128 tokens of the window
    assert suffix == "c" * 20 + "d" * 10 + "\x03"


def test_the_nearest_files_are_kept() -> None:
    files = (InfillFile("far", "f" * 300), InfillFile("near", "n" * 60))
    text = shown(
        InfillPrompt("x", "y", extra=files), RepositoryTokenizer(), max_context=256, max_tokens=10
    )
    before = text.partition("\x01")[0]
    assert before.endswith("\x05near\n" + "n" * 60 + "\x05file\n")
    assert before.startswith("^\x04repository\nf")
    # Half the context is the window's, twice the answer stays free.
    assert len(before) == 1 + 256 - 128 - 20 - NUM_MARKS


def test_no_room_for_files() -> None:
    prompt = InfillPrompt("x", "y", extra=(InfillFile("a", "A" * 100),))
    assert "A" not in shown(prompt, max_context=256, max_tokens=200)


def test_a_model_without_marks_says_so() -> None:
    with pytest.raises(NotSupportedError, match="Infill is not supported by this model"):
        shown(InfillPrompt("x", "y"), TextOnlyTokenizer())


@given(
    prefix=WORDS,
    suffix=WORDS,
    files=FILES,
    max_context=st.integers(64, 400),
    max_tokens=st.none() | st.integers(0, 100),
)
def test_what_is_cut_always_fits(
    prefix: str,
    suffix: str,
    files: list[InfillFile],
    max_context: int,
    max_tokens: int | None,
) -> None:
    prompt = InfillPrompt(prefix * 10, suffix * 10, extra=tuple(files))
    text = shown(prompt, RepositoryTokenizer(), max_context=max_context, max_tokens=max_tokens)
    kept_prefix, _, kept_suffix = text.partition("\x01")[2].partition("\x02")
    assert prompt.prefix.endswith(kept_prefix)
    assert prompt.suffix.startswith(kept_suffix[:-1])
    assert len(text) < max_context
    assert len(kept_prefix) + len(kept_suffix) <= min(WINDOW_LEN, max_context // 2)


def test_the_pipeline_takes_the_models_context() -> None:
    renderer = ChatRenderer(InProcessRenderer())
    pipeline = TextPipeline(ByteTokenizer(), renderer, max_context=64)
    prompt = InfillPrompt("a" * 100, "b" * 100)
    prepared = pipeline.prepare(prompt)
    assert (len(prepared.tokens), prepared.public_len, prepared.text) == (34, 0, "")
    assert pipeline.count(prompt) == 34
    surrogates = dataclasses.replace(prompt, prefix="cut \ud83d", suffix="")
    assert "\ufffd".encode() in bytes(t for t in pipeline.prepare(surrogates).tokens if t < BOS)


def test_what_was_begun_is_never_cut() -> None:
    class Narrow(ByteTokenizer):
        def tokenize(
            self, text: str, *, add_special: bool, parse_special: bool, as_prompt: bool = False
        ) -> list[int]:
            if as_prompt:
                raise TooLongError(prompt_tokens=9, max_context=8)
            return super().tokenize(text, add_special=add_special, parse_special=parse_special)

    with pytest.raises(TooLongError):
        shown(InfillPrompt("", "", begun="x"), Narrow())
