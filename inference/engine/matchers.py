"""llguidance's matchers: how one is made, what it knows of a vocabulary, why it can say nothing.

Following one is bounded by llguidance's own counters, which are of work and not of time, so that
the same request fares alike everywhere. Making one isn't: see `grammar_process`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, cast

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

LIMITS: dict[str, int | bool] = {
    "initial_lexer_fuel": 200_000,
    "step_lexer_fuel": 100_000,
    "step_max_items": 30_000,
    "max_items_in_row": 2000,
    "max_lexer_states": 12_000,
    "max_grammar_size": 100_000,
    "verbose_errors": False,  # they would quote what was said
}
NO_VALUE = "no value satisfies it"
# What llguidance says in its own words, and ours for whoever wrote the schema.
REASONS: Sequence[tuple[str, str]] = (
    ("oneOf", "the alternatives of 'oneOf' may overlap; 'anyOf' can be enforced"),
    ("circular", "a reference that leads to itself can't have keywords beside it"),
    ("nsatisfiable", NO_VALUE),
    ("min/maxProperties", "numbers of properties need every named property to be required"),
    ("lookaround", "regular expressions can't look ahead or back"),
    ("backreference", "regular expressions can't refer to a group"),
    ("too large", "it is too large"),
    ("fuel", "it is too complex"),
    ("too complex", "it is too complex"),
    ("limit", "it is too complex"),
    ("stack level", "it is too complex"),
)


def make_matcher(source: str, words: LLTokenizer) -> LLMatcher:
    """A matcher of a grammar as `LLMatcher.grammar_from_…` writes it, perhaps in error."""
    return LLMatcher(words, source, log_level=0, limits=LLParserLimits(**cast(Any, LIMITS)))


def problem_of(matcher: LLMatcher) -> str:
    """Why nothing can be said by this grammar, "" if something can."""
    first = matcher.deep_copy()
    if not first.is_error():
        is_dead = not any(first.compute_bitmask())
        if not first.is_error():
            return NO_VALUE if is_dead else ""
    error = first.get_error()
    known = (ours for theirs, ours in REASONS if theirs in error)
    return next(known, "it isn't understood, or of a kind that isn't supported")


class Words:
    """A vocabulary: `pieces` by token, of which the `specials` are told apart from texts like
    them. Equal ones have the same tokens."""

    def __init__(
        self,
        pieces: Sequence[bytes],
        specials: Sequence[int],
        ends: Sequence[int],
        tokenize: Callable[[bytes], list[int]],
    ) -> None:
        self.pieces, self.specials, self.ends = pieces, specials, ends
        self._tokenize = tokenize
        digest = hashlib.sha256(repr((tuple(specials), tuple(ends))).encode())
        for piece in pieces:
            digest.update(len(piece).to_bytes(4, "big") + piece)
        self._digest = digest.digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Words) and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    def index(self) -> LLTokenizer:
        """What llguidance looks tokens up in; some tenths of a second for a model."""
        return LLTokenizer(
            TokenizerWrapper(_Wrapped(self, self._tokenize)),
            n_vocab=len(self.pieces),
            eos_token=list(self.ends),
            slices=LLTokenizer.json_slices(),
        )


class _Wrapped:
    """What `TokenizerWrapper` asks for."""

    def __init__(self, words: Words, tokenize: Callable[[bytes], list[int]]) -> None:
        self.eos_token_id = words.ends[0]
        self.bos_token_id = None
        self.tokens = words.pieces
        self.special_token_ids = words.specials
        self._tokenize = tokenize

    def __call__(self, data: bytes) -> list[int]:
        return self._tokenize(data)
