"""Answers beside vectors, counted: what lies between two tokens of an answer."""

from __future__ import annotations

import itertools
import random

import pytest

from inference.engine.batch import Batch
from inference.engine.config import EngineConfig
from inference.engine.embedder import Embedder
from inference.engine.embedding import VectorRequest
from inference.engine.joint import JointEngine, VectorEngine
from inference.engine.mock_embedding import MockEmbedding
from inference.engine.text_pace import LEAST_LEN
from inference.protocol.events import Cancelled, Delta, Finished, Result, is_terminal
from inference.protocol.params import Limits
from inference.protocol.spec import EngineSpec, MockSpec
from llamaweb.lib.clock import ManualClock
from llamaweb.lib.errors import WrongModelError
from tests.engine.driving import ask, backend_of, make_engine

UBATCH_LEN = 64
MAX_STEPS = 3000
SPEC = EngineSpec("m", "e", "", "", engine_class="mock", ubatch_len=UBATCH_LEN, mock=MockSpec())


class Both:
    """A joint engine on the mock that notes what was computed, in order: ("vectors", tokens) and
    ("tokens", rows of answers, rows of prompts)."""

    def __init__(self, reply: str = "x" * 60) -> None:
        clock = ManualClock()
        self.answers = make_engine(reply, clock=clock, ubatch_len=UBATCH_LEN, batch_len=UBATCH_LEN)
        self.vectors = MockEmbedding(SPEC)
        self.engine = JointEngine(self.answers, Embedder(self.vectors, clock), EngineConfig())
        self.log: list[tuple[str, int, int]] = []
        backend_of(self.answers).fault = self._note_tokens
        compute = self.vectors.compute

        def note_vectors(pieces, task):  # type: ignore[no-untyped-def]
            self.log.append(("vectors", sum(len(piece.tokens) for piece in pieces), 0))
            return compute(pieces, task)

        self.vectors.compute = note_vectors  # type: ignore[method-assign]

    def _note_tokens(self, batch: Batch) -> None:
        num_decode = len([1 for seq_id, num in batch.runs if num == 1])
        self.log.append(("tokens", num_decode, batch.num_rows - num_decode))

    def run(self, each_step: int = 0) -> list[object]:
        """To the end; with each of the first 40 steps so many requests for vectors arrive."""
        names = itertools.count()
        events: list[object] = []
        for step in range(MAX_STEPS):
            if not self.engine.has_work:
                return events
            for _ in range(each_step if step < 40 else 0):
                if self.engine.stats()["embed_waiting"] < 30:
                    self.engine.add(vectors(f"v{next(names)}", 20, 20))
            events += self.engine.step()
        raise AssertionError("the engine doesn't end")


def vectors(name: str, *lengths: int) -> VectorRequest:
    return VectorRequest(name, tuple((65,) * n for n in lengths), dimensions=64)


class Timed:
    """A joint engine on a clock that goes on by what its batches cost, and the gaps between the
    tokens of a chat that is written beside it."""

    def __init__(self, *, token_s: float, decode_s: float, noise: float = 0.0) -> None:
        self.clock = ManualClock()
        self.token_s = token_s
        self.decode_s = decode_s
        self._noise = noise
        self._random = random.Random(7)
        answers = make_engine("x" * 300, clock=self.clock, ubatch_len=512, batch_len=512)
        backend_of(answers).fault = self._spend_on_tokens
        spec = EngineSpec("m", "e", "", "", engine_class="mock", mock=MockSpec())
        backend = MockEmbedding(spec)
        compute = backend.compute

        def spend_on_texts(pieces, task):  # type: ignore[no-untyped-def]
            self._spend(self.token_s * sum(len(piece.tokens) for piece in pieces))
            return compute(pieces, task)

        backend.compute = spend_on_texts  # type: ignore[method-assign]
        embedder = Embedder(backend, self.clock)
        self.engine = JointEngine(answers, embedder, EngineConfig(), self.clock)
        self.num_vectors = 0

    def _spend_on_tokens(self, batch: Batch) -> None:
        self._spend(self.decode_s)

    def _spend(self, seconds: float) -> None:
        self.clock.advance(seconds * self._random.uniform(1 - self._noise, 1 + self._noise))

    def gaps(self, text_len: int) -> list[float]:
        """Seconds between tokens while texts of that length never run out, but for the first ones,
        when nothing was measured yet."""
        self.engine.add(ask("chat", "hello", limits=Limits(max_tokens=300)))
        at: list[float] = []
        names = itertools.count()
        for _ in range(MAX_STEPS):
            while self.engine.stats()["embed_waiting"] < 16:
                self.engine.add(vectors(f"v{next(names)}", text_len))
            for item in self.engine.step():
                self.num_vectors += isinstance(item.event, Result)
                if item.generation_id == "chat" and isinstance(item.event, Delta):
                    at.append(self.clock.monotonic())
                if item.generation_id == "chat" and is_terminal(item.event):
                    return [after - before for before, after in itertools.pairwise(at)][30:]
        raise AssertionError("the chat doesn't end")


STALL_S = EngineConfig().step_target_s
CLOCK_S = 1e-6  # what sums of floats are off


@pytest.mark.parametrize("text_len", [20, 70, 500])
@pytest.mark.parametrize("token_s", [0.0004, 0.003, 0.01])
def test_no_text_makes_a_stall_above_the_setting(token_s: float, text_len: int) -> None:
    timed = Timed(token_s=token_s, decode_s=0.02)
    gaps = timed.gaps(text_len)
    assert max(gaps) <= STALL_S + CLOCK_S
    assert max(gaps) > STALL_S / 3  # they take what they may
    assert timed.num_vectors >= 5


@pytest.mark.parametrize("text_len", [20, 500])
def test_a_machine_that_is_shared_keeps_to_the_setting_nearly_always(text_len: int) -> None:
    timed = Timed(token_s=0.003, decode_s=0.03, noise=0.5)
    gaps = sorted(timed.gaps(text_len))
    assert gaps[int(0.95 * len(gaps))] <= STALL_S + CLOCK_S
    assert timed.num_vectors >= 5


def test_where_tokens_alone_take_all_the_time_vectors_still_get_on() -> None:
    timed = Timed(token_s=0.01, decode_s=2 * STALL_S)
    gaps = timed.gaps(100)
    assert max(gaps) <= 2 * STALL_S + 0.01 * LEAST_LEN + CLOCK_S
    assert timed.num_vectors >= 5


def text_of(events: list[object], name: str) -> str:
    mine = [e.event for e in events if e.generation_id == name]  # type: ignore[attr-defined]
    assert is_terminal(mine[-1])
    return "".join(event.text for event in mine if isinstance(event, Delta))


@pytest.mark.parametrize("each_step", [1, 4])
def test_between_two_tokens_lies_one_batch_of_vectors_at_most(each_step: int) -> None:
    both = Both()
    both.engine.add(ask("chat", "hello", limits=Limits(max_tokens=60)))
    events = both.run(each_step)
    assert text_of(events, "chat") == "x" * 60
    writing = both.log[
        next(i for i, entry in enumerate(both.log) if entry[0] == "tokens" and entry[1]) :
    ]
    last = max(i for i, entry in enumerate(writing) if entry[0] == "tokens")
    num_vectors = sum(entry[0] == "vectors" for entry in writing[:last])
    assert num_vectors >= 10  # they do get on
    for entry, following in itertools.pairwise(writing[: last + 1]):
        if entry[0] == "vectors":
            assert entry[1] <= UBATCH_LEN
            assert following[0] == "tokens"
            assert following[1] >= 1
            assert following[2] == 0  # prompts wait for another step


def test_prompts_get_on_beside_vectors() -> None:
    both = Both("y" * 200)
    both.engine.add(ask("chat", "hello", limits=Limits(max_tokens=200)))
    events: list[object] = [*both.engine.step()]
    both.engine.add(ask("long", "z" * 1000, owner="user:2", limits=Limits(max_tokens=3)))
    events += both.run(each_step=2)
    assert text_of(events, "long") == "yyy"
    assert text_of(events, "chat") == "y" * 200


def test_vectors_alone_are_computed_as_fast_as_they_come() -> None:
    both = Both()
    for number in range(10):
        both.engine.add(vectors(f"v{number}", 30, 30))
    events = both.run()
    assert sum(isinstance(e.event, Result) for e in events) == 10  # type: ignore[attr-defined]
    assert not any(entry[0] == "tokens" for entry in both.log)
    assert both.engine.stats()["embed_texts"] == 20


def test_ends_on_request_are_told_once_each() -> None:
    both = Both()
    both.engine.add(ask("chat", "hello"))
    both.engine.add(vectors("v", 20))
    (end,) = both.engine.abort("v", "reader_gone")
    assert end.event == Cancelled("reader_gone")
    both.engine.add(vectors("w", 20))
    both.engine.drop("w")
    (end,) = both.engine.abort("chat", "user")
    assert isinstance(end.event, Cancelled)
    assert not both.engine.has_work
    assert both.engine.free_slots == 4


def test_a_model_of_vectors_refuses_answers_at_once() -> None:
    embedder = Embedder(MockEmbedding(SPEC), ManualClock())
    engine = VectorEngine(embedder, EngineConfig(), max_context=64, num_slots=3)
    assert engine.free_slots == 3
    with pytest.raises(WrongModelError):
        engine.add(ask("chat", "hello"))
    engine.add(vectors("v", 5))
    events = []
    while engine.has_work:
        events += engine.step()
    assert isinstance(events[-1].event, Finished)
    assert {"steps", "free_slots", "embed_tokens"} <= engine.stats().keys()
