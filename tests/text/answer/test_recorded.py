"""What models really wrote: the recorded outputs of the package canitoolcall.

They say what each text is made of. An outcome may differ in white space around content where they
contradict each other (`soft`). A call that is cut or broken counts as none, which is what its
`CallEnd` says.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from canitoolcall.fixtures import Fixture, load_families, load_fixtures
from canitoolcall.pytest_plugin import assert_conforms
from canitoolcall.results import ParsedToolCall, ParseResult

from inference.text.answer.events import AnswerEvent, whole
from inference.text.answer.families import MISTRAL, THINK, AnswerFormat
from inference.text.answer.tools import Tool, tools_of
from tests.text.answer.answers import format_of, read

NUM_OUTPUTS = 469
NUM_EXACT = 460  # the rest differs in white space around content
NUM_RANDOM_CUTTINGS = 20
# Two-way cuts are made everywhere, but for the middle of long outputs, which is one long value.
EDGE_CHARS = 200
MIDDLE_STEP = 32

# A list of two calls, cut inside the second: the first is kept here, as it is everywhere else.
KEPT = "llama/l4-truncated-missing-close-bracket"

# By family and a part of the model's name, the first that fits; the template that llama.cpp has of
# this model or of one that writes the same.
TEMPLATES = (
    ("qwen3-hermes", "", "Qwen-Qwen3-0.6B"),
    ("qwen3-xml", "Coder", "Qwen3-Coder"),
    ("qwen3-xml", "", "Qwen3.5-4B"),
    ("gpt-oss", "", "openai-gpt-oss-120b"),
    ("deepseek", "V3.2", "deepseek-ai-DeepSeek-V3.2"),
    ("deepseek", "V3", "deepseek-ai-DeepSeek-V3.1"),
    ("deepseek", "V4", "deepseek-ai-DeepSeek-V4"),
    ("kimi", "K3", "Kimi-K3"),
    ("kimi", "Instruct", "Kimi-K2-Instruct"),
    ("kimi", "", "Kimi-K2-Thinking"),
    ("glm", "4.5", "GLM-4.6"),
    ("glm", "", "GLM-4.7-Flash"),
    ("llama", "", "meta-llama-Llama-3.3-70B-Instruct"),
    ("gemma4", "", "google-gemma-4-31B-it"),
    ("mistral", "7B", "mistralai-Mistral-Nemo-Instruct-2407"),
    ("mistral", "3.2", "Mistral-Small-3.2-24B-Instruct-2506"),
    ("mistral", "Devstral-Small-2507", "unsloth-mistral-Devstral-Small-2507"),
    ("mistral", "", "mistralai-Ministral-3-14B-Reasoning-2512"),
)
FIXTURES = [pytest.param(fixture, id=fixture.id) for fixture in load_fixtures()]


def format_for(fixture: Fixture) -> AnswerFormat:
    """The format of the model that wrote it."""
    model = fixture.models[0]
    if model.endswith("Magistral-Small-2506"):  # its tags are text, and llama.cpp has no template
        return replace(MISTRAL, reasoning=THINK)
    return format_of(
        next(t for family, part, t in TEMPLATES if family == fixture.family and part in model)
    )


def _prompt(fixture: Fixture) -> str:
    if fixture.generation_prompt is not None:
        return fixture.generation_prompt
    models = load_families_once()[fixture.family].reference_models
    return next(m.default_generation_prompt or "" for m in models if m.repo == fixture.models[0])


load_families_once = functools.cache(load_families)


class _Recorded:
    """One output with all that reading it takes."""

    def __init__(self, fixture: Fixture) -> None:
        self.text = fixture.raw_output
        self._form = format_for(fixture)
        self._tools: list[Tool] = tools_of(fixture.tools)
        self._opened = self._form.opened_by(_prompt(fixture))
        self._finish = "length" if "truncated" in fixture.tags else "stop"

    def read(self, cuts: Iterable[int] = ()) -> list[AnswerEvent]:
        return read(
            self._form,
            self.text,
            cuts,
            tools=self._tools,
            opened=self._opened,
            finish=self._finish,
        )


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
    result = _result(_Recorded(fixture).read())

    if fixture.id == KEPT:
        assert [call.name for call in result.tool_calls] == ["get_weather"]
    else:
        assert_conforms(fixture, result, soft=True)


def test_nearly_all_are_read_to_the_byte() -> None:
    def is_exact(fixture: Fixture) -> bool:
        try:
            assert_conforms(fixture, _result(_Recorded(fixture).read()))
        except AssertionError:
            return False
        return True

    fixtures = load_fixtures()

    assert len(fixtures) == NUM_OUTPUTS
    assert sum(map(is_exact, fixtures)) >= NUM_EXACT


@pytest.mark.parametrize("fixture", FIXTURES)
def test_no_cut_changes_what_a_recorded_output_means(fixture: Fixture) -> None:
    recorded = _Recorded(fixture)
    length = len(recorded.text)
    events = recorded.read()

    for cut in range(1, length):
        in_middle = EDGE_CHARS < cut < length - EDGE_CHARS
        if in_middle and cut % MIDDLE_STEP:
            continue
        assert recorded.read([cut]) == events, cut
    rng = random.Random(fixture.id)
    for _ in range(NUM_RANDOM_CUTTINGS):
        cuts = sorted(rng.sample(range(length), rng.randint(1, min(length, 2 + length // 8))))
        assert recorded.read(cuts) == events, cuts
    assert recorded.read(range(1, length)) == events
