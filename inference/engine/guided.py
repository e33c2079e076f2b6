"""A grammar of llguidance's as a `Constraint`: the whole vocabulary is masked in microseconds."""

from __future__ import annotations

import numpy as np
from llguidance import LLMatcher

from inference.engine.constraints import ConstraintError
from inference.engine.guidance import compile_grammar
from inference.engine.picks import Logits
from inference.protocol.params import Grammar
from inference.text.tokenizer import Tokenizer
from llamaweb.lib.errors import InvalidError

NEG_INF = np.float32("-inf")


class GuidedConstraint:
    """See `Constraint`. Ends are allowed exactly where the grammar may end."""

    def __init__(self, matcher: LLMatcher, tokenizer: Tokenizer, param: str) -> None:
        """`matcher` is this one's own; `param` is the field that its grammar stood in."""
        self._matcher = matcher
        self._param = param
        self._tokenizer = tokenizer
        self._ends = np.array(tokenizer.end_tokens, np.int64)

    def forced(self) -> int | None:
        """Grammars force nothing."""
        return None

    def allows(self, token_id: int) -> bool:
        """See `Constraint.allows`; one token costs microseconds."""
        if self._tokenizer.is_end(token_id):
            return self._matcher.is_accepting()
        if self._matcher.is_stopped():
            return False
        return self._matcher.validate_tokens([token_id]) == 1

    def mask(self, logits: Logits) -> None:
        """See `Constraint.mask`.

        Raises:
            InvalidError: following the grammar takes more than its limits.
        """
        if self._matcher.is_stopped():
            allowed = np.zeros(len(logits), np.uint8)
        else:
            bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
            allowed = np.unpackbits(bits, count=len(logits), bitorder="little")
        self._check()
        allowed[self._ends] = self._matcher.is_accepting()
        np.copyto(logits, NEG_INF, where=allowed == 0)

    def accept(self, token_id: int) -> None:
        """See `Constraint.accept`; raises like `mask` as well."""
        if not self.allows(token_id):
            if not self._matcher.is_stopped():
                self._matcher.compute_bitmask()  # says whether it is out of its limits instead
                self._check()
            raise ConstraintError("a token came that the grammar refuses")
        if self._tokenizer.is_end(token_id):
            return  # nothing follows
        self._matcher.consume_token(token_id)
        self._check()

    def close(self) -> None:
        """Nothing is held that Python wouldn't free."""

    def _check(self) -> None:
        if self._matcher.is_error():
            raise InvalidError(
                "the grammar is too complex: it takes too much to follow", param=self._param
            )


def guided(
    grammar: Grammar, tokenizer: Tokenizer, matcher: LLMatcher | None = None
) -> GuidedConstraint:
    """The constraint of `grammar`, at its beginning; raises like `compile_grammar`, which made
    `matcher`, or is asked now."""
    matcher = matcher or compile_grammar(grammar, tokenizer)
    return GuidedConstraint(matcher.deep_copy(), tokenizer, grammar.param)
