"""The tokens of a step: one row of logits a sequence, over a pool where the vocabulary is large."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeAlias

from inference.engine.config import EngineConfig
from inference.engine.logprobs import after_logprobs, raw_logprobs, token_logprobs
from inference.engine.picks import Logits, Pick, Sampler
from inference.text.tokenizer import Tokenizer

MAX_THREADS = 4  # more rows than that are rarely worth a thread each


class Row(NamedTuple):
    """Whose token is picked, and how many candidates are shown with it."""

    sampler: Sampler
    num_probs: int
    shows_after: bool


Outcome: TypeAlias = Pick | Exception


class Picker:
    """Picks a step's tokens; a row that fails takes no other with it.

    llama.cpp runs without the interpreter's lock, so rows of a large vocabulary (about 1 ms each)
    are sampled side by side.
    """

    def __init__(self, tokenizer: Tokenizer, config: EngineConfig) -> None:
        self._tokenizer = tokenizer
        threads = config.sample_threads or min(MAX_THREADS, os.cpu_count() or 1)
        self._pool: ThreadPoolExecutor | None = None
        if threads > 1 and tokenizer.vocab_len >= config.large_vocab_len:
            self._pool = ThreadPoolExecutor(threads, "sampler")

    def pick_all(
        self, rows: Sequence[Row], logits_of: Callable[[int], Logits]
    ) -> Sequence[Outcome]:
        """An outcome a row; `logits_of` is called here, in the calling thread."""
        if self._pool is not None and len(rows) > 1:
            logits = [_read(logits_of, index) for index in range(len(rows))]
            return list(self._pool.map(self._pick_or_fail, rows, logits))
        outcomes: list[Outcome] = []
        for index, row in enumerate(rows):
            try:
                outcomes.append(self._pick(row, logits_of(index)))
            except Exception as error:
                outcomes.append(error)
        return outcomes

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _pick_or_fail(self, row: Row, logits: Logits | Exception) -> Outcome:
        if isinstance(logits, Exception):
            return logits
        try:
            return self._pick(row, logits)
        except Exception as error:
            return error

    def _pick(self, row: Row, logits: Logits) -> Pick:
        if not row.num_probs:
            return row.sampler.pick(logits)
        if row.shows_after:
            pick = row.sampler.pick(logits)
            shown = after_logprobs(pick.after, self._tokenizer)
        else:
            logprobs, best = raw_logprobs(logits, row.num_probs)  # before they are masked
            pick = row.sampler.pick(logits)
            shown = token_logprobs(pick.token_id, logprobs, best, self._tokenizer)
        return pick._replace(logprobs=(shown,))


def _read(logits_of: Callable[[int], Logits], index: int) -> Logits | Exception:
    try:
        return logits_of(index)
    except Exception as error:
        return error
