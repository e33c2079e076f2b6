"""A grammar that nobody asked for: where it can't be followed, the answer goes on without."""

from __future__ import annotations

import logging

from inference.engine.constraints import Constraint, ConstraintError
from inference.engine.picks import Logits
from llamaweb.lib.errors import InvalidError

logger = logging.getLogger(__name__)


class LenientGrammar:
    """A `Constraint` around `grammar`."""

    def __init__(self, grammar: Constraint) -> None:
        self._grammar = grammar
        self._is_dropped = False

    def forced(self) -> int | None:
        """Grammars force nothing."""
        return None

    def allows(self, token_id: int) -> bool:
        """See `Constraint.allows`."""
        return self._is_dropped or self._grammar.allows(token_id)

    def mask(self, logits: Logits) -> None:
        """See `Constraint.mask`."""
        if not self._is_dropped:
            try:
                self._grammar.mask(logits)
            except (ConstraintError, InvalidError) as error:
                self._drop(error)

    def accept(self, token_id: int) -> None:
        """See `Constraint.accept`; raises nothing."""
        if not self._is_dropped:
            try:
                self._grammar.accept(token_id)
            except (ConstraintError, InvalidError) as error:
                self._drop(error)

    def close(self) -> None:
        """See `Constraint.close`."""
        self._grammar.close()

    def _drop(self, error: Exception) -> None:
        self._is_dropped = True
        logger.info("the grammar of a call was dropped: %s", error)
