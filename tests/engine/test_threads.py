"""An engine gives up threads for which others need the cores, and takes them back."""

from __future__ import annotations

import threading

import pytest

from inference.engine.engine import Engine
from inference.engine.factory import build_engine
from inference.engine.mock_backend import MockBackend
from inference.engine.threads import LOOKS_TO_GIVE, LOOKS_TO_TAKE, PAUSE_S, ThreadGovernor
from inference.protocol.params import Limits
from inference.protocol.spec import EngineSpec, MockSpec
from llamaweb.lib.clock import ManualClock
from tests.engine.driving import ask
from tests.stack import wait_for


class Cores:
    """What a test says others use."""

    def __init__(self, most: int, cores: int) -> None:
        self.used: float | None = 0.0
        self.short_looks = 0
        self.governor = ThreadGovernor(most, cores=cores, meter=self)

    def used_by_others(self) -> float | None:
        return self.used

    def used_now(self, seconds: float) -> float | None:
        self.short_looks += 1
        return self.used

    def look(self, used: float | None, times: int = 1) -> int:
        self.used = used
        for _ in range(times):
            self.governor.look()
        return self.governor.num_threads


@pytest.mark.parametrize(
    ("most", "cores", "used", "left"),
    [
        (2, 2, 0.3, 2),
        (2, 2, 0.6, 1),
        (2, 2, 1.0, 1),
        (2, 2, 2.0, 1),  # one is always left
        (8, 8, 0.4, 8),
        (8, 8, 3.1, 5),
        (7, 8, 1.0, 7),  # the core left to others
        (4, 16, 9.0, 4),
    ],
)
def test_as_many_as_find_a_core(most: int, cores: int, used: float, left: int) -> None:
    assert Cores(most, cores).look(used, LOOKS_TO_GIVE) == left


def test_one_busy_moment_changes_nothing() -> None:
    cores = Cores(2, 2)
    assert cores.look(1.0, LOOKS_TO_GIVE - 1) == 2
    assert cores.look(0.1) == 2
    assert cores.look(1.0, LOOKS_TO_GIVE - 1) == 2


def test_taken_back_when_the_core_stays_free() -> None:
    cores = Cores(2, 2)
    cores.look(1.0, LOOKS_TO_GIVE)
    assert cores.look(0.1, LOOKS_TO_TAKE - 1) == 1
    assert cores.look(0.4, 1) == 1  # neither free nor taken: counted anew
    assert cores.look(0.1, LOOKS_TO_TAKE - 1) == 1
    assert cores.look(0.1) == 2


@pytest.mark.parametrize(
    ("most", "used", "back"),
    [(2, 0.0, 2), (2, 0.4, 2), (2, 0.7, 1), (2, None, 1), (8, 2.2, 6), (8, 0.3, 8), (8, 9.0, 1)],
)
def test_a_short_look_gives_back_what_is_free(most: int, used: float | None, back: int) -> None:
    cores = Cores(most, most)
    cores.look(float(most), LOOKS_TO_GIVE)
    cores.used = used
    cores.governor.look_now()
    assert cores.governor.num_threads == back


def test_a_short_look_takes_nothing_and_is_not_had_with_all_threads() -> None:
    cores = Cores(4, 4)
    cores.used = 4.0
    cores.governor.look_now()
    assert (cores.governor.num_threads, cores.short_looks) == (4, 0)
    cores.look(1.0, LOOKS_TO_GIVE)
    cores.used = 4.0
    cores.governor.look_now()
    assert (cores.governor.num_threads, cores.short_looks) == (3, 1)


def test_a_look_in_the_dark_says_nothing() -> None:
    assert Cores(2, 2).look(None, 5) == 2


def test_it_looks_by_itself_also_while_nothing_is_computed() -> None:
    cores = Cores(2, 2)
    cores.used = 1.0
    cores.governor.start()
    try:
        wait_for("a thread is given up", lambda: cores.governor.num_threads == 1, 20.0)
    finally:
        cores.governor.close()
    assert "cores" not in {thread.name for thread in threading.enumerate()}


def test_the_engine_computes_with_what_is_left() -> None:
    cores = Cores(2, 2)
    backend = MockBackend(MockSpec(reply="x" * 200))
    backend.num_threads = 2
    asked: list[int] = []
    backend.use_threads = asked.append  # type: ignore[method-assign]
    engine = Engine(backend, threads=cores.governor)
    engine.add(ask("a", limits=Limits(max_tokens=100)))
    engine.step()
    cores.look(1.0, LOOKS_TO_GIVE)
    engine.step()
    engine.step()
    assert asked == [1]
    assert engine.stats()["threads"] == 1
    engine.close()


def test_the_first_batch_after_a_pause_has_what_is_free_by_then() -> None:
    cores, clock = Cores(2, 2), ManualClock()
    backend = MockBackend(MockSpec(reply="x" * 200))
    backend.num_threads = 2
    engine = Engine(backend, threads=cores.governor, clock=clock)
    engine.add(ask("a", limits=Limits(max_tokens=100)))
    engine.step()
    cores.look(1.0, LOOKS_TO_GIVE)
    cores.used = 0.0
    engine.step()
    assert engine.stats()["threads"] == 1  # while it computes, a moment says little
    clock.advance(PAUSE_S + 0.01)
    engine.step()
    assert (engine.stats()["threads"], cores.short_looks) == (2, 1)
    engine.close()


def test_it_can_be_told_not_to() -> None:
    spec = EngineSpec("m", "e", "", "", engine_class="mock", yields_cores=False)
    engine, _ = build_engine(spec)
    assert isinstance(engine, Engine)
    assert not engine._threads.is_governed
    engine.close()
