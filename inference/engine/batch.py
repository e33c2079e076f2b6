"""One batch as flat arrays, and the number of passes over the weights it costs.

llama.cpp splits a batch into micro-batches ("ubatches"). With one KV stream a sequence, sequences
share a ubatch only if their ids are consecutive in batch order, and each gives the same number of
tokens to it. Rows are therefore laid out by ascending seq_id; `count_ubatches` is that rule.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Batch:
    """Rows of (token, position, seq_id, wants logits), filled anew each step without allocating.

    `outputs` lists the rows that want logits, in row order; the backend numbers its logits the
    same way.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tokens: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.positions: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.seq_ids: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.wants_logits: NDArray[np.int8] = np.zeros(capacity, np.int8)
        self._counting: NDArray[np.int32] = np.arange(capacity, dtype=np.int32)
        self.num_rows = 0
        self.outputs: list[int] = []
        self.runs: list[tuple[int, int]] = []

    def clear(self) -> None:
        """Start a new step."""
        self.num_rows = 0
        self.outputs.clear()
        self.runs.clear()

    def add_token(self, seq_id: int, token: int, position: int) -> None:
        """One generated token; its logits are wanted."""
        row = self.num_rows
        self.tokens[row] = token
        self.positions[row] = position
        self.seq_ids[row] = seq_id
        self.wants_logits[row] = 1
        self.num_rows = row + 1
        self.outputs.append(row)
        self.runs.append((seq_id, 1))

    def add_piece(self, seq_id: int, tokens: NDArray[np.int32], start: int, output: bool) -> None:
        """A piece of a prompt at positions `start`…; `output`: logits of its last token."""
        first, end = self.num_rows, self.num_rows + len(tokens)
        self.tokens[first:end] = tokens
        np.add(self._counting[: end - first], start, out=self.positions[first:end])
        self.seq_ids[first:end] = seq_id
        self.wants_logits[first:end] = 0
        if output:
            self.wants_logits[end - 1] = 1
            self.outputs.append(end - 1)
        self.num_rows = end
        self.runs.append((seq_id, end - first))


def count_ubatches(
    runs: Sequence[tuple[int, int]], ubatch_len: int, *, is_unified: bool = False
) -> int:
    """Passes over the weights for `runs` of (seq_id, number of tokens), ascending by seq_id.

    `is_unified`: one pool of cells, where any rows share a pass.
    """
    if is_unified:
        return -(-sum(num for _, num in runs) // ubatch_len)
    left = list(runs)
    count = 0
    while left:
        together = 1
        while together < len(left) and left[together][0] == left[together - 1][0] + 1:
            together += 1
        each = min(min(num for _, num in left[:together]), max(1, ubatch_len // together))
        head = [(seq_id, num - each) for seq_id, num in left[:together] if num > each]
        left = head + left[together:]
        count += 1
    return count
