"""The buffer of (id, logit, p) that llama.cpp's samplers work on."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import llama_cpp
import numpy as np

from inference.engine.picks import Logits

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class Choice(NamedTuple):
    """A selected token, and its probability among those that were left (NaN: there was none)."""

    token_id: int
    prob: float


class Candidates:
    """One row for each token of the vocabulary. Belongs to one thread."""

    def __init__(self, vocab_len: int) -> None:
        self._rows = np.zeros(vocab_len, CANDIDATE)
        fresh = np.zeros(vocab_len, CANDIDATE)
        fresh["id"] = np.arange(vocab_len, dtype=np.int32)
        # As bytes: numpy copies records one by one, ten times slower.
        self._bytes, self._fresh = self._rows.view(np.uint8), fresh.view(np.uint8)
        self._data = self._rows.ctypes.data_as(llama_cpp.llama_token_data_p)
        self._array: Any = llama_cpp.llama_token_data_array()
        self._reference = ctypes.byref(self._array)

    def choose(self, chain: Any, logits: Logits) -> Choice:
        """Run `chain` over `logits` and return what it selected.

        Raises:
            RuntimeError: the chain selected nothing.
        """
        self._fill(logits)
        self._apply(chain, len(self._rows))
        selected = self._array.selected
        if not 0 <= selected < self._array.size:
            raise RuntimeError("the sampler chain selected nothing")
        item = self._array.data[selected]
        return Choice(item.id, item.p)

    def best(self, count: int) -> list[tuple[int, float]]:
        """(token, probability) of the likeliest that the last chain left, none of them 0."""
        rows = self._rows[: self._array.size]
        rows = rows[rows["p"] > 0.0]
        if len(rows) > count:
            rows = rows[np.argpartition(-rows["p"], count - 1)[:count]]
        order = np.lexsort((rows["id"], -rows["p"]))
        return [(int(row["id"]), float(row["p"])) for row in rows[order]]

    def mask(self, grammar: Any, logits: Logits) -> None:
        """Set what `grammar` refuses to -inf in `logits`."""
        self._fill(logits)
        self._apply(grammar, len(self._rows))
        logits[:] = self._rows["logit"]

    def draw(self, dist: Any) -> None:
        """Let `dist` use up one random number on a single candidate."""
        self._rows["logit"][:1] = 0.0
        self._apply(dist, 1)

    def _fill(self, logits: Logits) -> None:
        self._bytes[:] = self._fresh  # samplers sort in place
        self._rows["logit"] = logits

    def _apply(self, sampler: Any, size: int) -> None:
        self._array.data = self._data
        self._array.size = size
        self._array.selected = -1
        self._array.sorted = False
        llama_cpp.llama_sampler_apply(sampler, self._reference)
