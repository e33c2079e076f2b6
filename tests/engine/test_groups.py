"""Who shares a batch: the same adapters with the same scales, in turns with the others."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from inference.engine.contract import SequenceRequest
from inference.engine.scheduler import Group, group_of
from inference.protocol.events import Delta, Finished
from inference.protocol.params import Limits
from llamaweb.lib.errors import InvalidError, NotSupportedError
from tests.engine.driving import ask, make_engine, run, run_one, started

LORA = ((0, 1.0),)
WEAK = ((0, 0.5),)
PREFIX = "p" * 200


def group(request: SequenceRequest) -> Group:
    engine = make_engine()
    engine.add(request)
    (sequence,) = engine._active.values()
    return group_of(sequence)


def test_only_equal_adapters_are_one_group() -> None:
    plain = ask("a")
    others = [
        ask("b", adapters=LORA),
        ask("c", adapters=WEAK),
        ask("d", adapters=((0, 1.0), (1, 1.0))),
        ask("e", adapters=((1, 1.0),)),
    ]
    groups = [group(request) for request in (plain, *others)]
    assert len(set(groups)) == len(groups)
    assert group(ask("f", "other", owner="user:9")) == group(plain)


def test_groups_take_turns_and_each_batch_is_of_one() -> None:
    """The mock refuses a batch of mixed adapters."""
    engine = make_engine("x" * 40, num_slots=6)
    for index, adapters in enumerate([(), LORA, WEAK, LORA, (), ()]):
        engine.add(ask(str(index), f"{index} prompt", owner=f"user:{index}", adapters=adapters))
    served: dict[str, list[int]] = {}
    step = 0
    while engine.has_work:
        step += 1
        for item in engine.step():
            if isinstance(item.event, Delta):
                served.setdefault(item.generation_id, []).append(step)
            assert not hasattr(item.event, "code")
    for steps in served.values():
        assert all(right - left <= 3 for left, right in itertools.pairwise(steps))
    assert len(served) == 6


def test_other_adapters_share_no_prefix_and_nobody_waits_for_them() -> None:
    engine = make_engine(num_slots=4)
    engine.add(ask("a", PREFIX, limits=Limits(max_tokens=1)))
    engine.add(ask("b", PREFIX, adapters=LORA, limits=Limits(max_tokens=1)))
    out = run(engine)
    assert [started(out[who]).cached_tokens for who in "ab"] == [0, 0]
    same = run_one(engine, ask("c", PREFIX, adapters=LORA, limits=Limits(max_tokens=1)))
    assert started(same).cached_tokens == 199
    other = run_one(engine, ask("d", PREFIX, adapters=WEAK, limits=Limits(max_tokens=1)))
    assert started(other).cached_tokens == 0
    assert isinstance(other[-1], Finished)


def test_what_this_engine_cannot_do_is_refused() -> None:
    engine = make_engine()
    with pytest.raises(InvalidError) as caught:
        engine.add(ask("a", adapters=((9, 1.0),)))
    assert caught.value.param == "lora[0].id"
    with pytest.raises(NotSupportedError):
        engine.add(dataclasses.replace(ask("b"), task="rerank"))
    assert not engine.has_work


def test_one_pass_a_decode_only_step_for_each_of_the_pools() -> None:
    engine = make_engine("x" * 20, num_slots=8, max_context=2000, is_unified=True)
    for index in range(8):
        engine.add(ask(str(index), f"{index} prompt", owner=f"user:{index}"))
    while engine.has_work:
        engine.step()
        if engine.last_step.num_prompt == 0 and engine.last_step.num_decode:
            assert engine.last_step.num_ubatches == 1
