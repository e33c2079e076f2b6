"""Grammars that llguidance compiles: JSON schemas, regular expressions, Lark.

All of it happens before a sequence reaches the engine's loop, which only copies what was compiled.
"""

from __future__ import annotations

import functools
import json
import re
import threading
import time
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from llguidance import LLMatcher, LLTokenizer

from inference.engine.grammar_process import grammar_process
from inference.engine.kept_grammars import KeptGrammars, Outcome, Refusal
from inference.engine.matchers import Words, make_matcher, problem_of
from inference.protocol.params import Grammar
from inference.text.schema.prepare import Prepared, prepare
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError

MAX_LOCATE_S = 0.5  # to find out which part of a schema is to blame
MAX_GRAMMAR_CHARS = 64 * 1024  # of a regular expression or a Lark grammar
# Not long even if the compiler copied all of it in each of the 50,000 steps it may take.
LIGHT_CHARS = 256
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


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A model's words, and llguidance's index of them."""

    words: Words
    index: LLTokenizer


Tried: TypeAlias = LLMatcher | str  # or why there is none


def compile_grammar(grammar: Grammar, tokenizer: Tokenizer) -> LLMatcher:
    """A matcher at the grammar's beginning, to be copied; the last ones are remembered.

    Raises:
        InvalidError: it isn't one, is over a bound, or (a schema) asks for what can't be enforced;
            `param` is its path in the request.
        FailedError: the process that compiles grammars can't be started.
    """
    kind, text, param, instead = grammar.kind, grammar.text, grammar.param, grammar.instead
    outcome = _KEPT.get(
        (kind, text, param, grammar.front, instead, tokenizer),
        len(text) + len(instead),
        lambda: _compiled(grammar, tokenizer),
    )
    if isinstance(outcome, Refusal):
        raise InvalidError(outcome.message, param=outcome.param)
    return outcome


_KEPT = KeptGrammars()


def _compiled(grammar: Grammar, tokenizer: Tokenizer) -> Outcome:
    kind, text, param = grammar.kind, grammar.text, grammar.param
    vocabulary = vocabulary_of(tokenizer)
    if kind == "json_schema":
        try:
            return _compile_schema(grammar, vocabulary)
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
    tried = _try(source, vocabulary, len(text))
    return Refusal(f"can't be followed: {tried}", param) if isinstance(tried, str) else tried


def _try(source: str, vocabulary: Vocabulary, num_chars: int) -> Tried:
    """Compile `source`, of which somebody else wrote so many characters."""
    if num_chars > LIGHT_CHARS:
        problem = grammar_process(vocabulary.words).problem(source)
        if problem:
            return problem
    matcher = make_matcher(source, vocabulary.index)
    return problem_of(matcher) or matcher


def _compile_schema(grammar: Grammar, vocabulary: Vocabulary) -> Outcome:
    prepared = prepare(json.loads(grammar.text), param=grammar.param)
    tried = _try_form(prepared, vocabulary, grammar.front)
    if isinstance(tried, str):
        path, problem = _blamed(prepared, vocabulary) or (grammar.param, tried)
        return Refusal(f"can't be enforced: {problem}", path)
    if not grammar.instead:
        return tried
    # Only now: beside what may come instead, a form that nothing fulfils would pass.
    tried = _try_form(prepared, vocabulary, grammar.front, grammar.instead)
    if isinstance(tried, str):
        return Refusal(f"can't be enforced beside a form: {tried}", "tools")
    return tried


def _try_form(prepared: Prepared, vocabulary: Vocabulary, front: str, instead: str = "") -> Tried:
    if not front and not instead:
        return _try_schema(prepared.text(), vocabulary)
    root = json.dumps({"x-guidance": JSON_OPTIONS, **prepared.root}, ensure_ascii=False)
    lark = _around(f"%json {root}", front, instead)
    return _try(LLMatcher.grammar_from_lark(lark), vocabulary, len(lark))


def _try_schema(text: str, vocabulary: Vocabulary) -> Tried:
    options = cast(Any, JSON_OPTIONS)
    source = LLMatcher.grammar_from_json_schema(text, overrides=options)
    return _try(source, vocabulary, len(text))


def _blamed(prepared: Prepared, vocabulary: Vocabulary) -> tuple[str, str] | None:
    """Path and problem of the innermost part that can't be compiled on its own either."""
    ends_ts = time.monotonic() + MAX_LOCATE_S
    for part in prepared.parts:
        tried = _try_schema(prepared.text(part), vocabulary)
        if isinstance(tried, str):
            return part.param, tried
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


_WALKING = threading.Lock()


def vocabulary_of(tokenizer: Tokenizer) -> Vocabulary:
    """The tokens as llguidance knows them; who asks while they are gathered waits for that."""
    with _WALKING:
        return _vocabulary(cast(Any, tokenizer))


@functools.lru_cache(4)  # a walk over the whole vocabulary
def _vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    pieces: list[bytes] = []
    specials: list[int] = []
    for token in range(tokenizer.vocab_len):
        piece = tokenizer.piece(token)
        if not piece:
            piece = tokenizer.piece(token, special=True)
            if piece:
                specials.append(token)
        pieces.append(piece)

    def tokenize(data: bytes) -> list[int]:
        text = data.decode("utf-8", "replace")
        return tokenizer.tokenize(text, add_special=False, parse_special=False)

    words = Words(pieces, specials, tokenizer.end_tokens, tokenize)
    return Vocabulary(words, words.index())
