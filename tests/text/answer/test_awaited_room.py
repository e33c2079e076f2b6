"""What has no room in a grammar for calls, or can't be compiled with it, is left out whole."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import pytest

from inference.engine import answering
from inference.engine.mock_tokenizer import MockTokenizer
from inference.engine.samplers import check_grammar
from inference.protocol.params import Grammar
from inference.text.answer.families import FAMILIES
from inference.text.answer.forcing import awaited_grammar
from inference.text.answer.shapes import BESIDE
from inference.text.answer.tools import Tool
from inference.text.chat_renderer import ChatRenderer, InProcessRenderer
from inference.text.prompts import TextPipeline
from llamaweb.lib.errors import InvalidError

MANY = [
    Tool(f"f{n}", {"properties": {f"parameter_{i}": {"type": "integer"} for i in range(8)}})
    for n in range(256)
]
CLOCK = Tool("clock")


def grammar_of(family: str, tools: Sequence[Tool], **options: Any) -> Grammar | None:
    return awaited_grammar(FAMILIES[family], tools, special=lambda _: None, **options)


def num_held(family: str) -> int:
    """How many of the tools there is a grammar for."""
    return bisect_left(
        range(1, len(MANY) + 1), True, key=lambda n: grammar_of(family, MANY[:n]) is None
    )


@pytest.mark.parametrize(
    "family", ["lfm2", "deepseek-v3", "tool-calls-tag", "deepseek-dsml", "hunyuan-3"]
)
def test_a_way_of_writing_is_not_dropped_where_another_begins_alike(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls would be held to the other one."""
    assert grammar_of(family, [CLOCK], alone=True) is None
    together = num_held(family)
    monkeypatch.setitem(BESIDE, family, ())  # type: ignore[arg-type]
    assert 0 < together < num_held(family) < len(MANY)


def test_one_that_begins_otherwise_is_text_then(monkeypatch: pytest.MonkeyPatch) -> None:
    held = num_held("llama")
    monkeypatch.setitem(BESIDE, "llama", ())  # type: ignore[arg-type]
    assert held == num_held("llama")
    assert (alone := grammar_of("llama", MANY[:held])) is not None
    assert all(trigger.value.startswith('{"name": ') for trigger in alone.triggers)


def test_the_familys_own_way_is_kept_to_where_all_of_them_can_not_be_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check(grammar: Grammar | None, tokenizer: Any) -> Any:
        if grammar is not None and "pyargs" in grammar.text:
            raise InvalidError("is too much")
        return check_grammar(grammar, tokenizer)

    monkeypatch.setattr(answering, "check_grammar", check)
    text = TextPipeline(MockTokenizer(), ChatRenderer(InProcessRenderer()))
    grammar, matcher = answering._awaited(FAMILIES["llama"], [CLOCK], "", True, text)
    assert grammar == grammar_of("llama", [CLOCK], alone=True)
    assert matcher is not None
    assert answering._awaited(FAMILIES["lfm2"], [CLOCK], "", True, text) == (None, None)
