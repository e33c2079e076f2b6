"""The embedder: who is in a batch, how large it is, how each request ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.contract import EngineEvent, Task
from inference.engine.embedder import MAX_REQUESTS, Embedder
from inference.engine.embedding import EmbeddingInfo, Piece, VectorRequest
from inference.engine.errors import BackendError
from inference.engine.text_pace import FIRST_LEN, LEAST_LEN
from inference.engine.vectors import Vectors, decoded
from inference.protocol.events import Cancelled, Failed, Finished, Result, is_terminal
from inference.protocol.results import EmbedResult, RerankResult
from llamaweb.lib.clock import ManualClock
from llamaweb.lib.errors import BusyError

BATCH_LEN = 64
MAX_STEPS = 2000


class Recorder:
    """Vectors that say what they were made of: (first token, number of tokens, last token)."""

    max_texts = 8
    progress = 0
    batch_len = BATCH_LEN

    def __init__(
        self,
        clock: ManualClock | None = None,
        max_input_len: int = BATCH_LEN,
        *,
        in_pieces: bool = False,
    ) -> None:
        in_pieces = in_pieces or max_input_len > BATCH_LEN
        self.info = EmbeddingInfo("mean", 3, max_input_len, ranks=True, in_pieces=in_pieces)
        self.batches: list[tuple[tuple[Piece, ...], Task]] = []
        self.token_s = 0.0
        self.fault: Callable[[Sequence[Piece]], None] = lambda pieces: None
        self._clock = clock
        self._held: list[int] = []

    def compute(self, pieces: Sequence[Piece], task: Task) -> list[Vectors]:
        num_tokens = sum(len(piece.tokens) for piece in pieces)
        assert 0 < num_tokens <= self.batch_len
        assert len(pieces) <= self.max_texts
        self.batches.append((tuple(pieces), task))
        if self._clock is not None:
            self._clock.advance(self.token_s * num_tokens)
        self.fault(pieces)
        return [self._vectors(piece, len(pieces)) for piece in pieces]

    def _vectors(self, piece: Piece, num: int) -> Vectors:
        if piece.start == 0:
            self._held = []
        assert piece.start == len(self._held)
        assert num == 1 or (piece.start == 0 and piece.is_last)
        self._held += piece.tokens
        if not piece.is_last:
            return np.empty((0, 3), np.float32)
        return np.array([[self._held[0], len(self._held), self._held[-1]]], np.float32)

    def close(self) -> None:
        """Nothing."""


def request(name: str, *lengths: int, task: Task = "embed", first: int = 0) -> VectorRequest:
    """Texts of these lengths; text i is made of the token `first` + i."""
    inputs = tuple((first + index,) * length for index, length in enumerate(lengths))
    return VectorRequest(name, inputs, task, normalize=-1, dimensions=3)


def run(embedder: Embedder, target_s: float = 1e9) -> list[EngineEvent]:
    events: list[EngineEvent] = []
    for _ in range(MAX_STEPS):
        if not embedder.has_work:
            return events
        events += embedder.step(target_s=target_s)
    raise AssertionError("the embedder doesn't end")


def result_of(events: Sequence[EngineEvent], name: str) -> Any:
    mine = [item.event for item in events if item.generation_id == name]
    assert len(mine) == 2
    assert isinstance(mine[0], Result)
    assert isinstance(mine[1], Finished)
    return mine[0].result


def rows(result: Any) -> list[list[float]]:
    assert isinstance(result, EmbedResult)
    return [decoded(text, result.dimensions)[0].tolist() for text in result.vectors]


@given(
    asked=st.lists(st.lists(st.integers(1, BATCH_LEN), min_size=1, max_size=9), max_size=6),
    target_s=st.sampled_from([0.0, 0.2, 1e9]),
    in_pieces=st.booleans(),
)
def test_everybody_gets_their_own(asked: list[list[int]], target_s: float, in_pieces: bool) -> None:
    clock = ManualClock()
    backend = Recorder(clock, in_pieces=in_pieces)
    backend.token_s = 0.01
    embedder = Embedder(backend, clock)
    for index, lengths in enumerate(asked):
        embedder.add(request(str(index), *lengths, first=100 * index))
    events = run(embedder, target_s)
    for index, lengths in enumerate(asked):
        result = result_of(events, str(index))
        first = 100 * index
        assert rows(result) == [[first + i, n, first + i] for i, n in enumerate(lengths)]
        assert result.prompt_tokens == sum(lengths)
    assert len([item for item in events if is_terminal(item.event)]) == len(asked)


def test_requests_take_turns_in_a_batch() -> None:
    backend = Recorder()
    embedder = Embedder(backend, ManualClock())
    embedder.add(request("first", 1))
    embedder.step(target_s=1e9)  # measures
    embedder.add(request("large", *[4] * 30))
    embedder.add(request("small", 4, 4, first=100))
    events = embedder.step(target_s=1e9)
    assert [piece.tokens[0] for piece in backend.batches[1][0]] == [0, 100, 1, 101, 2, 3, 4, 5]
    assert {item.generation_id for item in events} == {"small"}


def test_scores_and_vectors_are_not_in_one_batch() -> None:
    backend = Recorder()
    embedder = Embedder(backend, ManualClock())
    embedder.add(request("e", 2, 2))
    embedder.add(request("r", 3, 4, task="rerank", first=7))
    events = run(embedder)
    assert all(len({task}) == 1 for _, task in backend.batches)
    assert {task for _, task in backend.batches} == {"embed", "rerank"}
    result = result_of(events, "r")
    assert isinstance(result, RerankResult)
    assert result.scores == (7.0, 8.0)


def test_a_batch_keeps_to_its_time_once_the_rate_is_known() -> None:
    clock = ManualClock()
    backend = Recorder(clock)
    backend.token_s = 0.01
    embedder = Embedder(backend, clock)
    embedder.add(request("e", *[4] * 40))
    run(embedder, target_s=0.4)
    sizes = [sum(len(p.tokens) for p in pieces) for pieces, _ in backend.batches]
    assert sizes[0] <= FIRST_LEN
    assert max(sizes) <= 40
    backend.batches.clear()
    embedder.add(request("one", 60))
    run(embedder, target_s=0.01)  # a text that looks both ways can't be cut
    assert [len(pieces) for pieces, _ in backend.batches] == [1]


def test_a_text_that_may_be_cut_keeps_to_the_time_too() -> None:
    clock = ManualClock()
    backend = Recorder(clock, in_pieces=True)
    backend.token_s = 0.01
    embedder = Embedder(backend, clock)
    embedder.add(request("first", FIRST_LEN))
    run(embedder)  # measures
    backend.batches.clear()
    embedder.add(request("cut", 60, 21))
    events = run(embedder, target_s=0.205)
    assert rows(result_of(events, "cut")) == [[0, 60, 0], [1, 21, 1]]
    # Alike, so that no batch has to do with a single token.
    assert [len(p.tokens) for pieces, _ in backend.batches for p in pieces] == [20, 20, 20, 11, 10]


@pytest.mark.parametrize("token_s", [0.02, 0.5])
def test_a_machine_that_becomes_slower_gets_smaller_batches(token_s: float) -> None:
    clock = ManualClock()
    backend = Recorder(clock, in_pieces=True)
    backend.token_s = 0.001
    embedder = Embedder(backend, clock)
    embedder.add(request("fast", *[10] * 20))
    run(embedder, target_s=0.2)
    backend.token_s = token_s
    backend.batches.clear()
    embedder.add(request("slow", *[10] * 40))
    run(embedder, target_s=0.2)
    sizes = [sum(len(p.tokens) for p in pieces) for pieces, _ in backend.batches]
    assert sizes[0] > 0.2 / token_s  # nobody could know
    assert max(sizes[3:]) <= max(0.2 / token_s, LEAST_LEN)


def test_a_long_text_comes_in_pieces_alone_and_in_order() -> None:
    backend = Recorder(max_input_len=1000)
    embedder = Embedder(backend, ManualClock())
    embedder.add(request("long", 200, 3))
    embedder.add(request("short", 5, first=50))
    events = run(embedder)
    assert rows(result_of(events, "long")) == [[0, 200, 0], [1, 3, 1]]
    assert rows(result_of(events, "short")) == [[50, 5, 50]]
    assert sum(not pieces[-1].is_last for pieces, _ in backend.batches) >= 3


def test_one_that_left_in_the_middle_of_its_text_leaves_nothing_behind() -> None:
    backend = Recorder(max_input_len=1000)
    embedder = Embedder(backend, ManualClock())
    embedder.add(request("long", 500))
    embedder.step(target_s=1e9)
    embedder.add(request("next", 90, first=9))
    (end,) = embedder.abort("long", "user")
    assert end == EngineEvent("long", Cancelled("user"))
    assert embedder.abort("long", "user") == []
    assert rows(result_of(run(embedder), "next")) == [[9, 90, 9]]


def test_long_texts_of_one_request_take_turns_with_other_requests() -> None:
    backend = Recorder(max_input_len=1000)
    embedder = Embedder(backend, ManualClock())
    embedder.add(request("long", *[200] * 5))
    embedder.add(request("short", 5, first=50))
    embedder.add(request("other", 300, 300, first=70))
    events = run(embedder)
    ends = [item.generation_id for item in events if is_terminal(item.event)]
    assert ends == ["short", "other", "long"]
    assert rows(result_of(events, "long")) == [[i, 200, i] for i in range(5)]
    begun = [pieces[0].tokens[0] for pieces, _ in backend.batches if pieces[0].start == 0]
    assert begun == [0, 50, 70, 1, 71, 2, 3, 4]


def test_a_failing_batch_ends_the_one_that_fails_alone_and_no_others() -> None:
    backend = Recorder()
    embedder = Embedder(backend, ManualClock())

    def fault(pieces: Sequence[Piece]) -> None:
        if any(piece.tokens[0] == 13 for piece in pieces):
            raise BackendError("told to")

    backend.fault = fault
    embedder.add(request("good", 4, 4))
    embedder.add(request("bad", 4, first=13))
    embedder.add(request("other", 5, first=20))
    events = run(embedder)
    (failure,) = [item.event for item in events if item.generation_id == "bad"]
    assert isinstance(failure, Failed)
    assert (failure.code, failure.retryable) == ("engine_failed", True)
    assert rows(result_of(events, "good")) == [[0, 4, 0], [1, 4, 1]]
    assert rows(result_of(events, "other")) == [[20, 5, 20]]
    tried = [[piece.tokens[0] for piece in pieces] for pieces, _ in backend.batches]
    assert tried == [[0, 13, 20, 1], [0, 1], [13], [20]]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_a_failure(bad: float) -> None:
    backend = Recorder()
    embedder = Embedder(backend, ManualClock())
    embedder.add(VectorRequest("e", ((1, 2),), dimensions=3))
    embedder.add(request("good", 4, first=7))
    backend._vectors = lambda piece, num: np.array(  # type: ignore[method-assign]
        [[bad if piece.tokens[0] == 1 else 9, 1, 2]], np.float32
    )
    events = run(embedder)
    (failure,) = [item.event for item in events if item.generation_id == "e"]
    assert isinstance(failure, Failed)
    assert rows(result_of(events, "good")) == [[9, 1, 2]]


def test_no_more_requests_than_the_bound() -> None:
    embedder = Embedder(Recorder(), ManualClock())
    for number in range(MAX_REQUESTS):
        embedder.add(request(str(number), 1))
    with pytest.raises(BusyError):
        embedder.add(request("more", 1))
    assert embedder.num_waiting == MAX_REQUESTS
    assert embedder.drop("3")
    embedder.add(request("more", 1))
    assert len(run(embedder)) == 2 * MAX_REQUESTS
