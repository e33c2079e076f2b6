"""What a model may say of its own accord, as its tools' grammar has it."""

from __future__ import annotations

from typing import Any

from inference.engine.guided import guided
from inference.engine.lazy_grammar import LazyGrammar
from inference.engine.lenient import LenientGrammar
from inference.engine.mock_tokenizer import END_TOKEN, MockTokenizer
from inference.text.answer.families import AnswerFormat
from inference.text.answer.forcing import awaited_grammar
from inference.text.answer.tools import Tool

TOKENIZER = MockTokenizer()


class Watched:
    """A lazy grammar that reads a text."""

    def __init__(self, form: AnswerFormat, *tools: Tool, **options: Any) -> None:
        grammar = awaited_grammar(form, tools, special=lambda _: None, **options)
        assert grammar is not None
        assert grammar.lazy
        assert grammar.lenient
        rules = LenientGrammar(guided(grammar, TOKENIZER))
        self.rules = rules
        self._lazy = LazyGrammar(rules, grammar.triggers, TOKENIZER, frozenset(range(256)))

    def reads(self, text: str) -> bool:
        """Whether `text` may be said, all of it."""
        for token in text.encode():
            if not self._lazy.allows(token):
                return False
            self._lazy.accept(token)
        assert not self.rules._is_dropped
        return True

    @property
    def may_end(self) -> bool:
        """Whether the answer may end here."""
        return self._lazy.allows(END_TOKEN)
