"""The bench of the API families, which is a client of all of them."""

from __future__ import annotations

import asyncio

from tests.bench.families import WORKLOADS, FamiliesRun, measure_on
from tests.bench.families_report import render
from tests.bench.forms import FORMS
from tests.bench.rounds import Plan, engine_spec
from tests.bench.sides import ENGINE
from tests.bench.workloads import Sizes
from tests.stack import Stack


def test_every_family_gets_the_same_prompts_and_gives_whole_answers(stack: Stack) -> None:
    plan = Plan(
        rounds=1,
        concurrency=(2,),
        workloads=WORKLOADS,
        seed="7",
        threads=1,
        engine_class="mock",
        sizes=Sizes(max_tokens=8, requests=2),
    )
    run = FamiliesRun("the mock", plan, engine_spec(plan))
    said: list[str] = []
    asyncio.run(measure_on(stack, run, said.append))
    (round_,) = run.rounds
    names = {ENGINE, *(form.name for form in FORMS)}
    assert {key.target for key in round_.cells} == names
    assert len({figures.prompt for figures in round_.cells.values()}) == 1
    assert {key.target for key in run.web_ms} == names - {ENGINE}
    assert set(round_.idle) == {ENGINE, "product"}
    assert len(said) == len(names)
    assert render([run]).count("\n| 2 |") == len(names)
