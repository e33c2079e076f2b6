"""A grammar that sleeps until the answer holds one of its triggers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, cast

from inference.engine.constraints import Constraint, ConstraintError
from inference.engine.picks import Logits
from inference.engine.thought_guard import ThoughtGuard
from inference.protocol.params import MAX_TRIGGERS, GrammarTrigger
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError

MAX_START_BLANKS = 16  # in front of an answer's first word
# Finds a trigger in the bytes said so far, of which the first `num_seen` held none; where it begins
Finder = Callable[[bytearray, int], int | None]


class LazyGrammar:
    """A `Constraint` around `grammar`, which is fed from the trigger's beginning on, even where
    that lies inside a token."""

    def __init__(
        self,
        grammar: Constraint,
        triggers: Sequence[GrammarTrigger],
        tokenizer: Tokenizer,
        preserved: Set[int],
        guard: ThoughtGuard | None = None,
    ) -> None:
        """Words that are one token become token triggers. While `guard`, which accepts each token
        first, sees reasoning, nothing wakes it; the answer's first text is then what stands behind.

        Raises:
            InvalidError: no trigger, too many, a word of one token that isn't `preserved` (nobody
                would see it), or a pattern that isn't one.
        """
        self._grammar = grammar
        self._tokenizer = tokenizer
        self._guard = guard
        self._was_open = guard is not None and guard.is_open  # before the next token
        self._is_awake = False
        self._said = bytearray()
        self._num_closing = 0  # bytes of `_said` that belong to reasoning's end
        self._ends: list[tuple[int, int]] = []  # (token, length of `_said` behind it)
        self._tokens, self._starts, self._finders = _compile(triggers, tokenizer, preserved)

    def forced(self) -> int | None:
        """See `Constraint.forced`."""
        return self._grammar.forced() if self._is_awake else None

    def allows(self, token_id: int) -> bool:
        """See `Constraint.allows`."""
        return self._grammar.allows(token_id) if self._is_awake else True

    def mask(self, logits: Logits) -> None:
        """See `Constraint.mask`."""
        if self._is_awake:
            self._grammar.mask(logits)

    def accept(self, token_id: int) -> None:
        """See `Constraint.accept`."""
        was_open, self._was_open = self._was_open, self._guard is not None and self._guard.is_open
        if not self._is_awake and self._was_open:
            self._said.clear()
            self._ends.clear()
            return
        if self._is_awake or token_id in self._tokens:
            self._is_awake = True
            self._grammar.accept(token_id)
            return
        num_seen = len(self._said)
        self._said += self._tokenizer.piece(token_id, special=True)
        self._ends.append((token_id, len(self._said)))
        if was_open and self._guard is not None:  # this token ended it
            self._num_closing = len(self._said) - len(self._guard.behind)
        start = self._find(num_seen)
        if start is not None:
            self._wake(start)

    def close(self) -> None:
        """See `Constraint.close`."""
        self._grammar.close()

    def _find(self, num_seen: int) -> int | None:
        begin = self._num_closing
        starts = (_find_start(word, self._said, num_seen, begin) for word in self._starts)
        others = (finder(self._said, num_seen) for finder in self._finders)
        return next((start for start in (*starts, *others) if start is not None), None)

    def _wake(self, start: int) -> None:
        self._is_awake = True
        for token, begin, end in self._spans():
            if end <= start:
                continue
            tail = bytes(self._said[start:end])
            for part in (token,) if begin >= start else spell(tail, self._tokenizer):
                self._grammar.accept(part)
        self._said.clear()
        self._ends.clear()

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        begin = 0
        for token, end in self._ends:
            yield token, begin, end
            begin = end


def spell(data: bytes, tokenizer: Tokenizer) -> list[int]:
    """Tokens whose pieces are `data`, whatever a tokenizer would make of it in a text.

    Raises:
        ConstraintError: the vocabulary can't write it.
    """
    ids = _ids_by_piece(cast(Any, tokenizer))
    out = []
    while data:
        for length in range(min(len(data), MAX_SPELL_BYTES), 0, -1):
            token = ids.get(data[:length])
            if token is not None:
                out.append(token)
                data = data[length:]
                break
        else:
            raise ConstraintError("the vocabulary can't write what woke the grammar")
    return out


MAX_SPELL_BYTES = 16


@functools.lru_cache(maxsize=4)  # a walk over the whole vocabulary
def _ids_by_piece(tokenizer: Tokenizer) -> dict[bytes, int]:
    pieces = ((tokenizer.piece(token), token) for token in range(tokenizer.vocab_len))
    return {piece: token for piece, token in pieces if 0 < len(piece) <= MAX_SPELL_BYTES}


def _compile(
    triggers: Sequence[GrammarTrigger], tokenizer: Tokenizer, preserved: Set[int]
) -> tuple[set[int], list[bytes], list[Finder]]:
    """Tokens, words that may only stand at the beginning, and the others."""
    if not triggers:
        raise _invalid("a lazy grammar needs at least one trigger")
    if len(triggers) > MAX_TRIGGERS:
        raise _invalid(f"there are {len(triggers)} triggers, at most {MAX_TRIGGERS} are allowed")
    tokens: set[int] = set()
    starts: list[bytes] = []
    finders: list[Finder] = []
    for trigger in triggers:
        if trigger.kind == "token":
            tokens.add(trigger.token_id)
        elif not trigger.value:
            raise _invalid("a trigger has no text")
        elif trigger.kind == "start":
            starts.append(trigger.value.encode("utf-8", "replace"))
        elif trigger.kind != "word":
            finders.append(_pattern(trigger))
        elif (token := _only_token(trigger.value, tokenizer)) is None:
            finders.append(functools.partial(_find_word, trigger.value.encode("utf-8", "replace")))
        elif token in preserved:
            tokens.add(token)
        else:
            raise _invalid("a trigger word that is one token must be among preserved_tokens")
    return tokens, starts, finders


def _only_token(text: str, tokenizer: Tokenizer) -> int | None:
    tokens = tokenizer.tokenize(text, add_special=False, parse_special=True)
    return tokens[0] if len(tokens) == 1 else None


def _find_word(word: bytes, said: bytearray, num_seen: int) -> int | None:
    start = said.find(word, max(0, num_seen - len(word) + 1))
    return None if start < 0 else start


def _find_start(word: bytes, said: bytearray, num_seen: int, begin: int) -> int | None:
    """The word as the first one behind `begin` and white space; looked for until that can't be any
    more."""
    if num_seen - begin > len(word) + MAX_START_BLANKS:
        return None
    text = said[begin:].lstrip()
    return len(said) - len(text) if text.startswith(word) else None


def _pattern(trigger: GrammarTrigger) -> Finder:
    try:
        regex = re.compile(trigger.value.encode("utf-8", "replace"))
    except (re.error, OverflowError, RecursionError) as error:
        raise _invalid("a trigger pattern isn't a regular expression") from error
    search = regex.fullmatch if trigger.kind == "pattern_full" else regex.search

    def find(said: bytearray, num_seen: int) -> int | None:
        match = search(said)
        if match is None:
            return None
        groups = (index for index in range(1, regex.groups + 1) if match[index])
        return match.start(next(groups, 0))

    return find


def _invalid(message: str) -> InvalidError:
    return InvalidError(message, param="grammar_triggers")
