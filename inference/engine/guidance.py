"""Grammars that llguidance compiles: JSON schemas, regular expressions, Lark.

Compiling and following are bounded by llguidance's own counters, which are of work and not of time,
so that the same request fares alike everywhere; it gives the interpreter back while it compiles.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Sequence
from typing import Any, cast

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from inference.engine.kept_grammars import KeptGrammars, Outcome, Refusal
from inference.protocol.params import Grammar
from inference.text.schema.prepare import Prepared, prepare
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError

MAX_LOCATE_S = 0.5  # to find out which part of a schema is to blame
MAX_GRAMMAR_CHARS = 64 * 1024  # of a regular expression or a Lark grammar
LIMITS: dict[str, int | bool] = {
    "initial_lexer_fuel": 200_000,
    "step_lexer_fuel": 100_000,
    "step_max_items": 30_000,
    "max_items_in_row": 2000,
    "max_lexer_states": 12_000,
    "max_grammar_size": 100_000,
    "verbose_errors": False,  # they would quote what was said
}
# A space, or a new line with its indentation: what people write, and nothing that goes on for ever.
WHITESPACE = r" |\n(?: {0,16}|\t{0,8})"
SLASHES = re.compile(r"\\.|[/\n]", re.DOTALL)  # what Lark writes otherwise, escapes apart
JSON_OPTIONS: dict[str, Any] = {
    "whitespace_flexible": True,
    "whitespace_pattern": WHITESPACE,
    "item_separator": ",",
    "key_separator": ":",
    "coerce_one_of": False,
    "lenient": False,
    # No \u: a name written with it would be another text, but the same property.
    "json_allowed_escapes": 'nrbtf\\"',
    "json_allow_general_unicode_escapes": False,
}


def compile_grammar(grammar: Grammar, tokenizer: Tokenizer, *, takes: bool = False) -> LLMatcher:
    """A matcher at the grammar's beginning, to be copied; the last ones are remembered, and one
    that was checked is until its sequence `takes` it.

    Raises:
        InvalidError: it isn't one, is over a bound, or (a schema) asks for what can't be enforced;
            `param` is its path in the request.
    """
    kind, text, param, instead = grammar.kind, grammar.text, grammar.param, grammar.instead
    outcome = _KEPT.get(
        (kind, text, param, grammar.front, instead, tokenizer),
        len(text) + len(instead),
        lambda: _compiled(grammar, tokenizer),
        takes=takes,
    )
    if isinstance(outcome, Refusal):
        raise InvalidError(outcome.message, param=outcome.param)
    return outcome


_KEPT = KeptGrammars()


def _compiled(grammar: Grammar, tokenizer: Tokenizer) -> Outcome:
    kind, text, param = grammar.kind, grammar.text, grammar.param
    words = vocabulary(cast(Any, tokenizer))
    if kind == "json_schema":
        try:
            return _compile_schema(grammar, words)
        except InvalidError as error:
            return Refusal(error.message, error.param)
    if len(text) > MAX_GRAMMAR_CHARS:
        return Refusal(
            f"has {len(text)} characters, at most {MAX_GRAMMAR_CHARS} are allowed", param
        )
    if kind == "regex" and grammar.front:
        source = LLMatcher.grammar_from_lark(_around(_slashed(text), grammar.front))
    elif kind == "regex":
        source = LLMatcher.grammar_from_regex(text)
    else:
        source = LLMatcher.grammar_from_lark(text)
    matcher = _matcher(source, words)
    problem = _problem(matcher)
    return Refusal(f"can't be followed: {problem}", param) if problem else matcher


def _compile_schema(grammar: Grammar, words: LLTokenizer) -> Outcome:
    prepared = prepare(json.loads(grammar.text), param=grammar.param)
    matcher = _form_matcher(prepared, words, grammar.front)
    problem = _problem(matcher)
    if problem:
        path, problem = _blamed(prepared, words) or (grammar.param, problem)
        return Refusal(f"can't be enforced: {problem}", path)
    if not grammar.instead:
        return matcher
    # Only now: beside what may come instead, a form that nothing fulfils would pass.
    matcher = _form_matcher(prepared, words, grammar.front, grammar.instead)
    problem = _problem(matcher)
    return Refusal(f"can't be enforced beside a form: {problem}", "tools") if problem else matcher


def _form_matcher(
    prepared: Prepared, words: LLTokenizer, front: str, instead: str = ""
) -> LLMatcher:
    if not front and not instead:
        return _schema_matcher(prepared.text(), words)
    root = json.dumps({"x-guidance": JSON_OPTIONS, **prepared.root}, ensure_ascii=False)
    return _matcher(LLMatcher.grammar_from_lark(_around(f"%json {root}", front, instead)), words)


def _blamed(prepared: Prepared, words: LLTokenizer) -> tuple[str, str] | None:
    """Path and problem of the innermost part that can't be compiled on its own either."""
    ends_ts = time.monotonic() + MAX_LOCATE_S
    for part in prepared.parts:
        problem = _problem(_schema_matcher(prepared.text(part), words))
        if problem:
            return part.param, problem
        if time.monotonic() > ends_ts:
            return None
    return None


def _around(answer: str, front: str, instead: str = "") -> str:
    """Lark for `answer` behind what `front` says, or for what `instead` says."""
    start = "front answer" if front else "answer"
    start += " | instead" if instead else ""
    rules = dict.fromkeys([*front.split("\n"), *instead.split("\n")])  # reasoning's is in both
    return "\n".join(["%llguidance {}", f"start: {start}", *rules, f"answer: {answer}"])


def _slashed(pattern: str) -> str:
    """A regular expression as it is written in Lark, between slashes and on one line."""
    written = {"/": r"\/", "\n": r"\n", "\\\n": r"\n"}
    return f"/{SLASHES.sub(lambda found: written.get(found[0], found[0]), pattern)}/"


def _schema_matcher(text: str, words: LLTokenizer) -> LLMatcher:
    options = cast(Any, JSON_OPTIONS)
    return _matcher(LLMatcher.grammar_from_json_schema(text, overrides=options), words)


def _matcher(source: str, words: LLTokenizer) -> LLMatcher:
    return LLMatcher(words, source, log_level=0, limits=LLParserLimits(**cast(Any, LIMITS)))


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


def _problem(matcher: LLMatcher) -> str:
    """Why nothing can be said by this grammar, "" if something can."""
    first = matcher.deep_copy()
    if not first.is_error():
        is_dead = not any(first.compute_bitmask())
        if not first.is_error():
            return NO_VALUE if is_dead else ""
    error = first.get_error()
    known = (ours for theirs, ours in REASONS if theirs in error)
    return next(known, "it isn't understood, or of a kind that isn't supported")


@functools.lru_cache(4)  # a walk over the whole vocabulary
def vocabulary(tokenizer: Tokenizer) -> LLTokenizer:
    """The tokens as llguidance knows them; some tenths of a second for a model."""
    return LLTokenizer(
        TokenizerWrapper(_Vocabulary(tokenizer)),
        n_vocab=tokenizer.vocab_len,
        eos_token=list(tokenizer.end_tokens),
        slices=LLTokenizer.json_slices(),
    )


class _Vocabulary:
    """What `TokenizerWrapper` asks for; control tokens are told apart from texts like them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.eos_token_id = tokenizer.end_tokens[0]
        self.bos_token_id = None
        self.tokens: list[bytes] = []
        self.special_token_ids: list[int] = []
        self._tokenizer = tokenizer
        for token in range(tokenizer.vocab_len):
            piece = tokenizer.piece(token)
            if not piece:
                piece = tokenizer.piece(token, special=True)
                if piece:
                    self.special_token_ids.append(token)
            self.tokens.append(piece)

    def __call__(self, data: bytes) -> list[int]:
        text = data.decode("utf-8", "replace")
        return self._tokenizer.tokenize(text, add_special=False, parse_special=False)
