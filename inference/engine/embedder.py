"""Vectors for many requests: texts of several share a batch, and requests take turns."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from inference.engine.contract import EngineEvent
from inference.engine.embedding import EmbeddingBackend, Piece, VectorRequest
from inference.engine.errors import BackendError, failed_event
from inference.engine.text_pace import TextPace
from inference.engine.vectors import Vectors, encoded, normalized
from inference.protocol.events import Cancelled, CancelledBy, Event, Finished, Result, Usage
from inference.protocol.results import EmbedResult, RerankResult
from llamaweb.lib.clock import Clock, SystemClock
from llamaweb.lib.errors import BusyError

logger = logging.getLogger(__name__)

MAX_REQUESTS = 64  # held at once; workers take fewer, the queue keeps the rest
RETRY_S = 1.0


@dataclass(eq=False, slots=True)
class _Job:
    """One request. `done_len`: tokens of input `next` that were computed already."""

    request: VectorRequest
    vectors: list[Vectors] = field(default_factory=list)
    next: int = 0
    done_len: int = 0
    has_failed: bool = False

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.request.inputs))


@dataclass(slots=True)
class EmbedderStats:
    """Counters since the start."""

    embed_batches: int = 0
    embed_texts: int = 0
    embed_tokens: int = 0
    embed_s: float = 0.0
    embed_longest_s: float = 0.0


class Embedder:
    """Driven step by step from one thread. Every added request ends in exactly one terminal event,
    unless it is dropped."""

    def __init__(self, backend: EmbeddingBackend, clock: Clock | None = None) -> None:
        self.stats = EmbedderStats()
        self._backend = backend
        self._clock = clock or SystemClock()
        self._jobs: deque[_Job] = deque()
        self._pace = TextPace()

    @property
    def has_work(self) -> bool:
        """Whether `step` would do something."""
        return bool(self._jobs)

    @property
    def num_waiting(self) -> int:
        """Requests that aren't complete."""
        return len(self._jobs)

    @property
    def progress(self) -> int:
        """Changes while a long `step` gets on; read from any thread."""
        return self._backend.progress

    def add(self, request: VectorRequest) -> None:
        """Take a request in.

        Raises:
            BusyError: `MAX_REQUESTS` are here.
        """
        if len(self._jobs) >= MAX_REQUESTS:
            raise BusyError(
                f"{MAX_REQUESTS} requests for vectors are being computed, the most allowed",
                reason="engine_busy",
                retry_after_s=RETRY_S,
            )
        self._jobs.append(_Job(request))

    def abort(self, generation_id: str, by: CancelledBy) -> list[EngineEvent]:
        """End a request; unknown ids are ignored."""
        return [EngineEvent(generation_id, Cancelled(by))] if self.drop(generation_id) else []

    def drop(self, generation_id: str) -> bool:
        """Forget a request without a word; whether it was here."""
        for job in self._jobs:
            if job.request.generation_id == generation_id:
                self._jobs.remove(job)
                return True
        return False

    def step(self, *, target_s: float) -> list[EngineEvent]:
        """Compute one batch that is to take `target_s`, one text or one piece of it at least: it
        takes longer where a text can't be cut, or where the machine has just become slower."""
        chosen = self._choose(self._pace.fitting(target_s, most=self._backend.batch_len))
        if not chosen:
            return []
        events = self._compute(chosen)
        return [*events, *(event for job in list(self._jobs) for event in self._finish(job))]

    def close(self) -> None:
        """Forget all requests and free the context."""
        self._jobs.clear()
        self._backend.close()

    # --- what to compute

    def _choose(self, budget: int) -> list[tuple[_Job, Piece]]:
        """The next texts, one of each request in turn, all for one task. A text that is longer than
        `budget`, and may be cut, comes in pieces, alone."""
        chosen: list[tuple[_Job, Piece]] = []
        ahead = {id(job): job.next for job in self._jobs}
        left, passed = budget, 0
        while self._jobs and passed < len(self._jobs) and len(chosen) < self._backend.max_texts:
            job = self._jobs[0]
            is_begun = job.done_len > 0
            if chosen and job.request.task != chosen[0][0].request.task:
                break
            tokens = self._next_text(job, ahead[id(job)])
            if is_begun or (tokens is not None and self._is_cut(tokens, budget)):
                return chosen or [self._long_piece(job, budget)]
            if tokens is None or (chosen and len(tokens) > left):
                passed += 1
            else:
                chosen.append((job, Piece(tokens)))
                ahead[id(job)] += 1
                left -= len(tokens)
                passed = 0
            self._jobs.rotate(-1)
        return chosen

    def _is_cut(self, tokens: tuple[int, ...], budget: int) -> bool:
        return self._backend.info.in_pieces and len(tokens) > budget

    def _long_piece(self, job: _Job, budget: int) -> tuple[_Job, Piece]:
        """Of the first job, whose turn is over with its text."""
        piece = _piece_of(job, budget)
        if piece.is_last:
            self._jobs.rotate(-1)
        return job, piece

    @staticmethod
    def _next_text(job: _Job, index: int) -> tuple[int, ...] | None:
        return job.request.inputs[index] if index < len(job.request.inputs) else None

    def _observe(self, pieces: Sequence[Piece], elapsed_s: float) -> None:
        num_tokens = sum(len(piece.tokens) for piece in pieces)
        stats = self.stats
        stats.embed_batches += 1
        stats.embed_texts += sum(piece.is_last for piece in pieces)
        stats.embed_tokens += num_tokens
        stats.embed_s += elapsed_s
        stats.embed_longest_s = max(stats.embed_longest_s, elapsed_s)
        self._pace.observe(num_tokens, elapsed_s)

    # --- ends

    def _compute(self, chosen: Sequence[tuple[_Job, Piece]]) -> list[EngineEvent]:
        """Where it fails, each request's part alone: one bad text ends nobody else. Returns how
        those ended that failed."""
        pieces = [piece for _, piece in chosen]
        started_ts = self._clock.monotonic()
        try:
            found = self._backend.compute(pieces, chosen[0][0].request.task)
        except Exception as error:
            # Only the type: a message may hold prompt text.
            logger.error("%d texts couldn't be computed: %s", len(pieces), type(error).__name__)
            parts = _by_job(chosen)
            if len(parts) == 1:
                return self._fail(chosen[0][0], error)
            return [event for part in parts for event in self._compute(part)]
        self._observe(pieces, self._clock.monotonic() - started_ts)
        events: list[EngineEvent] = []
        for (job, piece), vectors in zip(chosen, found, strict=True):
            if job.has_failed:
                continue
            if np.isfinite(vectors).all():
                _take(job, piece, vectors)
            else:
                logger.error("a text has vectors with numbers that aren't finite")
                events += self._fail(job, BackendError("numbers that aren't finite"))
        return events

    def _finish(self, job: _Job) -> list[EngineEvent]:
        if job.next < len(job.request.inputs):
            return []
        self._jobs.remove(job)
        usage = Usage(prompt_tokens=job.num_tokens)
        is_pooled = self._backend.info.pooling != "none"
        events: tuple[Event, ...] = (_result(job, is_pooled=is_pooled), Finished("stop", usage))
        return [EngineEvent(job.request.generation_id, event) for event in events]

    def _fail(self, job: _Job, error: Exception) -> list[EngineEvent]:
        job.has_failed = True
        self._jobs.remove(job)
        return [EngineEvent(job.request.generation_id, failed_event(error))]


def _by_job(chosen: Sequence[tuple[_Job, Piece]]) -> list[list[tuple[_Job, Piece]]]:
    parts: dict[int, list[tuple[_Job, Piece]]] = {}
    for job, piece in chosen:
        parts.setdefault(id(job), []).append((job, piece))
    return list(parts.values())


def _piece_of(job: _Job, budget: int) -> Piece:
    """The next piece of the text that is begun; its pieces are about alike, so that none is a crumb
    which takes a batch of its own."""
    rest = len(job.request.inputs[job.next]) - job.done_len
    num_pieces = -(-rest // budget)
    end = job.done_len + -(-rest // num_pieces)
    tokens = job.request.inputs[job.next][job.done_len : end]
    is_last = job.done_len + len(tokens) == len(job.request.inputs[job.next])
    return Piece(tokens, job.done_len, is_last)


def _take(job: _Job, piece: Piece, vectors: Vectors) -> None:
    if piece.is_last:
        job.vectors.append(vectors)
        job.next, job.done_len = job.next + 1, 0
    else:
        job.done_len += len(piece.tokens)


def _result(job: _Job, *, is_pooled: bool) -> Result:
    request = job.request
    if request.task == "rerank":
        scores = tuple(float(vectors[0, 0]) for vectors in job.vectors)
        return Result(RerankResult(scores, job.num_tokens))
    made = [vectors[:, : request.dimensions] for vectors in job.vectors]
    texts = tuple(encoded(normalized(vectors, request.normalize)) for vectors in made)
    return Result(EmbedResult(texts, request.dimensions, job.num_tokens, is_pooled))
