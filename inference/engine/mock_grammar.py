"""A grammar over the mock's byte tokens: the same rules as llama.cpp's, in plain Python.

A state is a set of stacks, and a stack holds what is still to come as linked pairs (element, rest).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from inference.engine.constraints import ConstraintError
from inference.engine.mock_tokenizer import END_TOKEN, VOCAB_LEN
from inference.engine.picks import Logits
from inference.text.gbnf import parse_gbnf
from inference.text.gbnf_tree import ROOT, Chars, Element, Group, Ref

Stack: TypeAlias = tuple[Element, Any] | None
UTF8_LENGTHS = ((0x80, 1), (0xC2, 0), (0xE0, 2), (0xF0, 3), (0xF5, 4), (0x100, 0))
FIRST_OF_LENGTH = (0, 0, 0x80, 0x800, 0x10000)
NEG_INF = float("-inf")


class MockGrammar:
    """See `Constraint`."""

    def __init__(self, text: str) -> None:
        self._rules = parse_gbnf(text, lambda _: False)
        self._stacks = self._advanced({(Ref(ROOT), None)})
        self._partial = b""  # bytes of a character that isn't complete
        self.is_closed = False

    def forced(self) -> int | None:
        """Grammars force nothing."""
        return None

    def allows(self, token_id: int) -> bool:
        """See `Constraint.allows`."""
        if token_id == END_TOKEN:
            return None in self._stacks and not self._partial
        data = self._partial + bytes((token_id,))
        missing = _missing(data)
        if missing is None:
            return False
        return bool(self._after(*_span(data, missing)))

    def mask(self, logits: Logits) -> None:
        """See `Constraint.mask`."""
        refused = [token for token in range(VOCAB_LEN) if not self.allows(token)]
        logits[np.array(refused, np.int64)] = NEG_INF

    def accept(self, token_id: int) -> None:
        """See `Constraint.accept`."""
        if not self.allows(token_id):
            raise ConstraintError("a token came that the grammar refuses")
        if token_id == END_TOKEN:
            return
        data = self._partial + bytes((token_id,))
        if _missing(data):
            self._partial = data
            return
        self._stacks = self._advanced(self._after(*_span(data, 0)))
        self._partial = b""

    def close(self) -> None:
        """See `Constraint.close`."""
        assert not self.is_closed
        self.is_closed = True

    def _after(self, low: int, high: int) -> set[Stack]:
        """Stacks behind one more character between two code points."""
        return {
            stack[1]
            for stack in self._stacks
            if stack is not None and isinstance(stack[0], Chars) and _matches(stack[0], low, high)
        }

    def _advanced(self, stacks: set[Stack]) -> set[Stack]:
        """The same with a character, or nothing, on top of each."""
        done: set[Stack] = set()
        seen: set[Stack] = set()
        todo = list(stacks)
        while todo:
            stack = todo.pop()
            if stack in seen:
                continue
            seen.add(stack)
            if stack is None or isinstance(stack[0], Chars):
                done.add(stack)
            elif isinstance(stack[0], Ref):
                todo += self._options(Group(self._rules[stack[0].name]), stack[1])
            elif isinstance(stack[0], Group):
                todo += self._options(stack[0], stack[1])
        return done

    def _options(self, group: Group, rest: Stack) -> list[Stack]:
        out: list[Stack] = [rest] if group.least == 0 else []
        if group.most == 0:
            return out
        most = None if group.most is None else group.most - 1
        again = replace(group, least=max(0, group.least - 1), most=most)
        behind = rest if again.most == 0 else (again, rest)
        for sequence in group.options:
            stack = behind
            for element in reversed(sequence):
                stack = (element, stack)
            out.append(stack)
        return out


def _matches(chars: Chars, low: int, high: int) -> bool:
    if chars.negated:
        return not any(first <= low and high <= last for first, last in chars.ranges)
    return any(first <= high and low <= last for first, last in chars.ranges)


def _missing(data: bytes) -> int | None:
    """Bytes until the character in `data` is complete; None: it can't become one."""
    length = next(length for bound, length in UTF8_LENGTHS if data[0] < bound)
    if not length or any(byte >> 6 != 2 for byte in data[1:]):
        return None
    return length - len(data)


def _span(data: bytes, missing: int) -> tuple[int, int]:
    """The code points that the beginning of a character may become."""
    length = len(data) + missing
    bits = data[0] if length == 1 else data[0] & (0x7F >> length)
    for byte in data[1:]:
        bits = bits << 6 | byte & 0x3F
    low = bits << 6 * missing
    return max(low, FIRST_OF_LENGTH[length]), low + (1 << 6 * missing) - 1
