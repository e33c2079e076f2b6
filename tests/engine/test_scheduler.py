"""A long prompt never blocks others; lanes, owners and ageing."""

from __future__ import annotations

import pytest

from inference.engine.batch import Batch
from inference.engine.config import EngineConfig
from inference.engine.engine import Engine
from inference.engine.timings import PrefillPace
from inference.protocol.events import Delta, Event, Finished, Progress
from inference.protocol.params import Limits
from inference.protocol.requests import Lane
from llamaweb.lib.clock import ManualClock
from tests.engine.driving import ask, backend_of, collect, finished, make_engine, run

ONE = Limits(max_tokens=1)
PIECE = 64


def engine_of_pieces(num_slots: int = 4) -> Engine:
    return make_engine(num_slots=num_slots, batch_len=PIECE, ubatch_len=PIECE)


def steps_until_delta(engine: Engine, generation_id: str, most: int) -> int:
    for count in range(1, most + 1):
        for item in engine.step():
            if item.generation_id == generation_id and isinstance(item.event, Delta):
                return count
    raise AssertionError(f"{generation_id} said nothing within {most} steps")


def test_a_long_prompt_doesnt_block_another_owner() -> None:
    engine = engine_of_pieces()
    engine.add(ask("long", "x" * 30_000, owner="user:alice"))
    engine.step()
    engine.add(ask("short", "hello", owner="user:bob"))
    assert steps_until_delta(engine, "short", 2) <= 2


def test_nor_a_short_one_of_the_same_owner() -> None:
    engine = engine_of_pieces()
    engine.add(ask("long", "x" * 30_000))
    engine.step()
    engine.add(ask("short", "hello"))
    assert steps_until_delta(engine, "short", 2) <= 2


def test_newcomers_of_about_the_same_length_wait_behind() -> None:
    engine = engine_of_pieces()
    engine.add(ask("first", "x" * 250, limits=ONE))
    engine.add(ask("second", "y" * 240, limits=ONE))
    engine.step()
    engine.add(ask("third", "z" * 200, limits=ONE))
    ended: list[str] = []
    while engine.has_work:
        ended += [i.generation_id for i in engine.step() if isinstance(i.event, Finished)]
    assert ended == ["first", "second", "third"]


def test_two_owners_of_long_prompts_advance_alike() -> None:
    engine = engine_of_pieces()
    for index in range(3):
        engine.add(ask(f"alice{index}", f"{index}" * 5_000, owner="user:alice"))
    engine.add(ask("bob", "x" * 5_000, owner="user:bob"))
    done: dict[str, int] = {}
    for _ in range(40):
        for item in engine.step():
            if isinstance(item.event, Progress):
                done[item.generation_id] = item.event.done
    alice = sum(num for who, num in done.items() if who.startswith("alice"))
    assert abs(alice - done["bob"]) <= 2 * PIECE


def test_interactive_goes_before_background_until_that_is_old() -> None:
    config = EngineConfig(age_steps=5)
    engine = make_engine(config=config, batch_len=PIECE, ubatch_len=PIECE)
    engine.add(ask("background", "b" * 200, owner="user:alice", lane="background", limits=ONE))
    engine.add(ask("interactive", "i" * 5_000, owner="user:alice", limits=ONE))
    served: list[str] = []
    for _ in range(24):
        served += [i.generation_id for i in engine.step() if isinstance(i.event, Progress)]
    assert served[:4] == ["interactive"] * 4
    assert served.count("background") == 4
    assert finished(run(engine)["interactive"]).usage.prompt_tokens == 5_000


def test_nobody_starves_among_many_owners() -> None:
    config = EngineConfig(age_steps=8)
    engine = make_engine(config=config, num_slots=8, batch_len=PIECE, ubatch_len=PIECE)
    for index in range(8):
        lane = "background" if index % 2 else "interactive"
        engine.add(ask(str(index), f"{index}" * 6_000, owner=f"user:{index % 3}", lane=lane))
    last_served = dict.fromkeys((str(index) for index in range(8)), 0)
    out: dict[str, list[Event]] = {}
    for step in range(1, 300):
        events = engine.step()
        collect(out, events)
        for item in events:
            if isinstance(item.event, Progress):
                assert step - last_served[item.generation_id] <= config.age_steps + 8
                last_served[item.generation_id] = step
    assert all(step > 250 for step in last_served.values())


@pytest.mark.parametrize("owners", [["a"], ["a", "b", "c"], ["victim"]])
@pytest.mark.parametrize("lane", ["interactive", "background"])
def test_arrivals_without_end_starve_nobody(owners: list[str], lane: Lane) -> None:
    config = EngineConfig(age_steps=8)
    engine = make_engine(config=config, num_slots=4, batch_len=PIECE, ubatch_len=PIECE)
    engine.add(ask("victim", "v" * 20 * PIECE, owner="victim", lane=lane, limits=ONE))
    last_served = arrivals = 0
    for step in range(1, 20 * (config.age_steps + 4)):
        while engine.free_slots:  # whoever ends is followed at once, by a prompt of a whole step
            text = f"{arrivals:05}" + "x" * (PIECE - 5)
            owner = owners[arrivals % len(owners)]
            engine.add(ask(f"n{arrivals}", text, owner=owner, limits=ONE))
            arrivals += 1
        for item in engine.step():
            if item.generation_id == "victim":
                last_served = step
                if isinstance(item.event, Delta):
                    assert arrivals > 20
                    return
        assert step - last_served <= config.age_steps + 4
    raise AssertionError("the prompt was never read to its end")


def make_pace(**config: float) -> PrefillPace:
    return PrefillPace(EngineConfig(**config), batch_len=2048, ubatch_len=512)  # type: ignore[arg-type]


def test_the_first_piece_is_small_and_measures() -> None:
    assert make_pace().budget(num_decode=0) == 32


@pytest.mark.parametrize(
    ("rate", "num_decode", "budget"),
    [
        (500, 3, 96),
        (500, 0, 192),
        (20, 1, 32),
        (4_000, 2, 512),
        (10_000, 1, 1536),
        (1e9, 4, 1536),
        (1e9, 0, 2048),
    ],
)
def test_pieces_follow_the_measured_rate(rate: float, num_decode: int, budget: int) -> None:
    pace = make_pace()
    pace.observe(num_prompt=512, num_decode=0, elapsed_s=512 / rate)
    assert pace.rate == pytest.approx(rate)
    assert pace.budget(num_decode=num_decode) == budget


def test_the_end_of_a_lone_prompt_comes_along() -> None:
    """A rest of 30 tokens would cost a pass of its own."""
    pace = PrefillPace(EngineConfig(), batch_len=2048, ubatch_len=512)
    pace.observe(num_prompt=400, num_decode=0, elapsed_s=1.0)  # 160 tokens a step
    engine = make_engine(batch_len=2048, ubatch_len=512)
    engine._pace = pace
    engine.add(ask("alone", "x" * 190, limits=ONE))
    engine.step()
    assert engine.last_step.num_prompt == 190


def test_while_others_are_reading_it_does_so_only_where_it_fits_the_time() -> None:
    pace = PrefillPace(EngineConfig(), batch_len=2048, ubatch_len=512)
    assert pace.slack(pace.budget(num_decode=1), num_decode=1) == 0
    assert pace.slack(pace.budget(num_decode=0), num_decode=0) == 16
    pace.observe(num_prompt=0, num_decode=7, elapsed_s=0.04)
    pace.observe(num_prompt=400, num_decode=0, elapsed_s=1.28)  # 50 tokens in what is left of 0.2 s
    budget = pace.budget(num_decode=7)
    assert (budget, pace.slack(budget, num_decode=7)) == (32, 18)
    assert pace.slack(100, num_decode=7) == 0


def test_the_decode_part_of_a_step_is_not_blamed_on_the_prompt() -> None:
    pace = make_pace()
    pace.observe(num_prompt=0, num_decode=4, elapsed_s=0.03)
    pace.observe(num_prompt=100, num_decode=4, elapsed_s=0.23)
    assert pace.rate == pytest.approx(500)


def test_a_long_prompt_among_readers_stalls_them_no_longer_than_the_setting() -> None:
    """2 ms a prompt token and 40 ms a step of answers; seven read when 4,000 tokens arrive."""
    clock = ManualClock()
    engine = make_engine("x" * 2_000, num_slots=8, clock=clock, config=EngineConfig())
    backend = backend_of(engine)

    def take_time(batch: Batch) -> None:
        num_prompt = batch.num_rows - len(batch.outputs)
        clock.advance(0.04 + 0.002 * num_prompt)

    backend.fault = take_time
    for index in range(7):
        engine.add(ask(str(index), f"{index} prompt", owner=f"user:{index}"))
    for _ in range(20):
        engine.step()
    engine.add(ask("long", "y" * 4_000, owner="user:9", limits=ONE))
    worst, steps = 0.0, 0
    while "long" in engine._active:
        before = clock.monotonic()
        engine.step()
        worst, steps = max(worst, clock.monotonic() - before), steps + 1
    assert 0.15 < worst <= 0.2 + 1e-9
    assert steps <= 4_000 / 64 + 2
