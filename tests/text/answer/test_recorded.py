"""What models really wrote: the recorded outputs of the package canitoolcall.

They say what each text is made of. An outcome may differ in white space around content where they
contradict each other (`soft`). A call that is cut or broken counts as none, which is what its
`CallEnd` says.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from canitoolcall.fixtures import Fixture, load_fixtures
from canitoolcall.pytest_plugin import assert_conforms
from canitoolcall.results import ParsedToolCall, ParseResult

from inference.text.answer.events import AnswerEvent, whole
from tests.text.answer.recorded import RecordedOutput, changed_by

NUM_OUTPUTS = 469
NUM_EXACT = 460  # the rest differs in white space around content
NUM_RANDOM_CUTTINGS = 20
# Two-way cuts are made everywhere, but for the middle of long outputs, which is one long value:
# `make cuts` makes those, too.
EDGE_CHARS = 200
MIDDLE_STEP = 32

# A list of two calls, cut inside the second: the first is kept here, as it is everywhere else.
KEPT = "llama/l4-truncated-missing-close-bracket"
FIXTURES = [pytest.param(fixture, id=fixture.id) for fixture in load_fixtures()]


def _result(events: Iterable[AnswerEvent]) -> ParseResult:
    answer = whole(events)
    return ParseResult(
        content=answer.text or None,
        reasoning_content=answer.reasoning or None,
        tool_calls=tuple(
            ParsedToolCall(call.name, call.arguments) for call in answer.calls if call.complete
        ),
    )


@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_recorded_output_is_read_as_it_was_meant(fixture: Fixture) -> None:
    result = _result(RecordedOutput(fixture).read())

    if fixture.id == KEPT:
        assert [call.name for call in result.tool_calls] == ["get_weather"]
    else:
        assert_conforms(fixture, result, soft=True)


def test_nearly_all_are_read_to_the_byte() -> None:
    def is_exact(fixture: Fixture) -> bool:
        try:
            assert_conforms(fixture, _result(RecordedOutput(fixture).read()))
        except AssertionError:
            return False
        return True

    fixtures = load_fixtures()

    assert len(fixtures) == NUM_OUTPUTS
    assert sum(map(is_exact, fixtures)) >= NUM_EXACT


@pytest.mark.parametrize("fixture", FIXTURES)
def test_no_cut_changes_what_a_recorded_output_means(fixture: Fixture) -> None:
    recorded = RecordedOutput(fixture)
    length = len(recorded.text)
    events = recorded.read()

    in_middle = range(EDGE_CHARS + 1, length - EDGE_CHARS)
    cuts = [cut for cut in range(1, length) if cut not in in_middle or cut % MIDDLE_STEP == 0]
    assert changed_by(recorded, cuts) == []
    rng = random.Random(fixture.id)
    for _ in range(NUM_RANDOM_CUTTINGS):
        cuts = sorted(rng.sample(range(length), rng.randint(1, min(length, 2 + length // 8))))
        assert recorded.read(cuts) == events, cuts
    assert recorded.read(range(1, length)) == events
