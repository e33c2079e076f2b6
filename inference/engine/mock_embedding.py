"""Vectors and scores without a model: pseudo-random, the same for the same tokens, and alike for
texts that share some."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from inference.engine.contract import Task
from inference.engine.embedding import EmbeddingInfo, Piece
from inference.engine.errors import BackendError
from inference.engine.mock_tokenizer import VOCAB_LEN
from inference.engine.vectors import Vectors
from inference.protocol.spec import EngineSpec

DIMENSIONS = 64
BETWEEN = (10,)  # a line's end
MAX_TEXTS = 64
MAX_SLEEP_S = 0.25


class MockEmbedding:
    """See `EmbeddingBackend`: a text's vector is the sum of its tokens' vectors, a pair's score the
    share of letters that both have. `batches`: what was computed."""

    max_texts = MAX_TEXTS
    progress = 0

    def __init__(self, spec: EngineSpec, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.batch_len = min(spec.ubatch_len, spec.batch_len)
        self.batches: list[tuple[Piece, ...]] = []
        self._spec = spec.mock
        self._sleep = sleep
        pooling = "mean" if spec.pooling == "auto" else spec.pooling
        self.info = EmbeddingInfo(
            pooling="mean" if pooling == "rank" else pooling,
            dimensions=DIMENSIONS,
            max_input_len=self.batch_len,
            embeds=spec.mock.only != "reranking",
            ranks=spec.mock.only != "embedding",
            between=BETWEEN,
            is_nested=True,
            norm=spec.vector_norm,
            in_pieces=True,
        )
        self._begun: tuple[int, ...] = ()  # of a text that comes in pieces
        random = np.random.Generator(np.random.PCG64(1))
        self._by_token = random.standard_normal((VOCAB_LEN, DIMENSIONS)).astype(np.float32)

    def compute(self, pieces: Sequence[Piece], task: Task) -> list[Vectors]:
        """See `EmbeddingBackend`."""
        num_tokens = sum(len(piece.tokens) for piece in pieces)
        if len(pieces) > MAX_TEXTS or num_tokens > self.batch_len:
            raise BackendError("the batch is larger than the context allows")
        if self._spec.prefill_ms_per_token:
            self._sleep(min(num_tokens * self._spec.prefill_ms_per_token / 1e3, MAX_SLEEP_S))
        self.batches.append(tuple(pieces))
        limit = self._spec.fail_after
        if limit and any(piece.start + len(piece.tokens) > limit for piece in pieces):
            raise BackendError("the script fails here")
        return [self._take(piece, task) for piece in pieces]

    def close(self) -> None:
        """Nothing to free."""

    def _take(self, piece: Piece, task: Task) -> Vectors:
        tokens = (*self._begun, *piece.tokens) if piece.start else piece.tokens
        self._begun = () if piece.is_last else tokens
        if not piece.is_last:
            return np.empty((0, DIMENSIONS), np.float32)
        return self._scores(tokens) if task == "rerank" else self._vectors(tokens)

    def _vectors(self, tokens: tuple[int, ...]) -> Vectors:
        rows: Vectors = self._by_token[list(tokens)]
        if self.info.pooling == "none":
            return rows
        if self.info.pooling == "mean":
            mean: Vectors = rows.mean(axis=0, keepdims=True, dtype=np.float32)
            return mean
        return rows[:1] if self.info.pooling == "cls" else rows[-1:]

    @staticmethod
    def _scores(tokens: tuple[int, ...]) -> Vectors:
        cut = tokens.index(BETWEEN[0]) if BETWEEN[0] in tokens else 0
        query, document = set(tokens[:cut]), set(tokens[cut + 1 :])
        both, either = len(query & document), len(query | document)
        return np.array([[both / either if either else 0.0]], np.float32)
