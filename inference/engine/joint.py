"""Answers and vectors of one model, in turns, from one thread."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TypeAlias

from inference.engine.adapters import Adapter
from inference.engine.config import EngineConfig
from inference.engine.contract import EngineEvent, SequenceRequest
from inference.engine.embedder import Embedder
from inference.engine.embedding import VectorRequest
from inference.engine.engine import Engine
from inference.engine.stats import EngineStats
from inference.engine.text_pace import Estimate
from inference.protocol.events import CancelledBy
from llamaweb.lib.clock import Clock, SystemClock
from llamaweb.lib.errors import WrongModelError

Work: TypeAlias = SequenceRequest | VectorRequest
ONLY_VECTORS = "this model turns texts into vectors or scores; it can't write an answer"


class JointEngine:
    """See `StepEngine`: an engine that writes answers and an embedder take turns.

    While answers are being written, a batch of vectors comes before every second step at most,
    and that step reads no prompts. So what a reader waits for between two tokens is one batch of
    vectors and one of tokens, or one with prompts, and either keeps to `step_target_s`: both are
    sized by what they took so far, a batch of vectors also by how far that strays.
    """

    def __init__(
        self,
        answers: Engine,
        embedder: Embedder,
        config: EngineConfig,
        clock: Clock | None = None,
    ) -> None:
        self._answers = answers
        self._embedder = embedder
        self._target_s = config.step_target_s
        self._clock = clock or SystemClock()
        self._decode = Estimate()  # a whole step without prompts
        self._is_embeddings_turn = True

    @property
    def max_context(self) -> int:
        """See `StepEngine.max_context`."""
        return self._answers.max_context

    @property
    def adapters(self) -> tuple[Adapter, ...]:
        """See `StepEngine.adapters`."""
        return self._answers.adapters

    @property
    def free_slots(self) -> int:
        """See `StepEngine.free_slots`; requests for vectors need none."""
        return self._answers.free_slots

    @property
    def has_work(self) -> bool:
        """See `StepEngine.has_work`."""
        return self._answers.has_work or self._embedder.has_work

    def add(self, request: Work) -> None:
        """See `StepEngine.add`."""
        if isinstance(request, VectorRequest):
            self._embedder.add(request)
        else:
            self._answers.add(request)

    def abort(self, generation_id: str, by: CancelledBy) -> list[EngineEvent]:
        """See `StepEngine.abort`."""
        return [
            *self._embedder.abort(generation_id, by),
            *self._answers.abort(generation_id, by),
        ]

    def drop(self, generation_id: str) -> None:
        """See `StepEngine.drop`."""
        if not self._embedder.drop(generation_id):
            self._answers.drop(generation_id)

    def end_reasoning(self, generation_id: str) -> None:
        """See `StepEngine.end_reasoning`."""
        self._answers.end_reasoning(generation_id)

    def purge(self, *, owner_key: str | None = None, conversation: str | None = None) -> int:
        """See `StepEngine.purge`; of texts that became vectors nothing is kept."""
        return self._answers.purge(owner_key=owner_key, conversation=conversation)

    def step(self) -> list[EngineEvent]:
        """See `StepEngine.step`."""
        if not self._embedder.has_work:
            return self._write(prompts=True)
        if not self._answers.has_work:
            return self._embedder.step(target_s=2 * self._target_s)
        is_turn = self._is_embeddings_turn
        self._is_embeddings_turn = not is_turn
        if not is_turn:
            return self._write(prompts=True)
        found = self._embedder.step(target_s=max(0.0, self._target_s - self._decode.most_s))
        return [*found, *self._write(prompts=False)]

    def _write(self, *, prompts: bool) -> list[EngineEvent]:
        started_ts = self._clock.monotonic()
        events = self._answers.step(prompts=prompts)
        record = self._answers.last_step
        if record.num_decode and not record.num_prompt:
            self._decode.observe(self._clock.monotonic() - started_ts)
        return events

    def stats(self) -> Mapping[str, float | int]:
        """See `StepEngine.stats`."""
        return {**self._answers.stats(), **embedder_stats(self._embedder)}

    def close(self) -> None:
        """See `StepEngine.close`."""
        self._embedder.close()  # its context lies on the other's model
        self._answers.close()


class VectorEngine:
    """See `StepEngine`, of a model that writes no answers; what asks for one is refused."""

    def __init__(
        self,
        embedder: Embedder,
        config: EngineConfig,
        *,
        max_context: int,
        num_slots: int,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self.max_context = max_context
        self.adapters: tuple[Adapter, ...] = ()
        self.free_slots = num_slots  # whoever asks for an answer is to hear soon that there is none
        self._embedder = embedder
        self._target_s = config.step_target_s
        self._on_close = on_close
        self._steps = 0

    @property
    def has_work(self) -> bool:
        """See `StepEngine.has_work`."""
        return self._embedder.has_work

    @property
    def progress(self) -> int:
        """See `LongSteps`: a long text can't be cut."""
        return self._embedder.progress

    def add(self, request: Work) -> None:
        """See `StepEngine.add`.

        Raises:
            WrongModelError: an answer is asked for.
        """
        if not isinstance(request, VectorRequest):
            raise WrongModelError(ONLY_VECTORS)
        self._embedder.add(request)

    def abort(self, generation_id: str, by: CancelledBy) -> list[EngineEvent]:
        """See `StepEngine.abort`."""
        return self._embedder.abort(generation_id, by)

    def drop(self, generation_id: str) -> None:
        """See `StepEngine.drop`."""
        self._embedder.drop(generation_id)

    def end_reasoning(self, generation_id: str) -> None:
        """See `StepEngine.end_reasoning`; there is none."""

    def purge(self, *, owner_key: str | None = None, conversation: str | None = None) -> int:
        """See `StepEngine.purge`; nothing is kept."""
        return 0

    def step(self) -> list[EngineEvent]:
        """See `StepEngine.step`."""
        self._steps += 1
        return self._embedder.step(target_s=2 * self._target_s)

    def stats(self) -> Mapping[str, float | int]:
        """See `StepEngine.stats`."""
        gauges = EngineStats(steps=self._steps).as_mapping(running=0, free_slots=self.free_slots)
        return {**gauges, **embedder_stats(self._embedder)}

    def close(self) -> None:
        """See `StepEngine.close`."""
        if self._on_close is not None:
            self._on_close()
        self._embedder.close()


def embedder_stats(embedder: Embedder) -> dict[str, float | int]:
    """Counters and gauges: `embed_…`."""
    return {**asdict(embedder.stats), "embed_waiting": embedder.num_waiting}
