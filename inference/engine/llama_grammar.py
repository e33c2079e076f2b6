"""llama.cpp's grammar as a `Constraint`.

llama.cpp ends the process when a token is accepted that its grammar refuses, so each is tested
first.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

import llama_cpp

from inference.engine.constraints import ConstraintError
from inference.engine.llama_candidates import Candidates
from inference.engine.picks import Logits
from llamaweb.lib.errors import InvalidError

MAX_MASK_S = 0.5  # of CPU
NEG_INF = float("-inf")


class LlamaGrammar:
    """See `Constraint`. `candidates` gives the calling thread's buffer."""

    def __init__(self, text: str, *, vocab: Any, candidates: Callable[[], Candidates]) -> None:
        """`text` has passed `parse_gbnf`.

        Raises:
            InvalidError: llama.cpp refuses it all the same.
        """
        self._candidates = candidates
        self._one: Any = llama_cpp.llama_token_data()
        array: Any = llama_cpp.llama_token_data_array()
        array.data = ctypes.pointer(self._one)
        self._array = array
        self._reference = ctypes.byref(array)
        self._sampler: Any = llama_cpp.llama_sampler_init_grammar(
            vocab, text.encode("utf-8", "replace"), b"root"
        )
        if not self._sampler:
            raise InvalidError("the grammar can't be read", param="grammar")

    def forced(self) -> int | None:
        """Grammars force nothing."""
        return None

    def allows(self, token_id: int) -> bool:
        """See `Constraint.allows`; one token costs microseconds."""
        self._one.id, self._one.logit, self._one.p = token_id, 1.0, 0.0
        self._array.size, self._array.selected, self._array.sorted = 1, -1, False
        llama_cpp.llama_sampler_apply(self._sampler, self._reference)
        return bool(self._one.logit != NEG_INF)

    def mask(self, logits: Logits) -> None:
        """See `Constraint.mask`; milliseconds, but for ambiguous grammars.

        Raises:
            ConstraintError: it took `MAX_MASK_S`; everybody waited, and the next one may be worse.
        """
        started_s = time.thread_time()
        self._candidates().mask(self._sampler, logits)
        if time.thread_time() - started_s > MAX_MASK_S:
            raise ConstraintError("the grammar is too ambiguous: it takes too long to follow")

    def accept(self, token_id: int) -> None:
        """See `Constraint.accept`."""
        if not self.allows(token_id):
            raise ConstraintError("a token came that the grammar refuses")
        llama_cpp.llama_sampler_accept(self._sampler, token_id)

    def close(self) -> None:
        """See `Constraint.close`."""
        if self._sampler:
            llama_cpp.llama_sampler_free(self._sampler)
            self._sampler = None
