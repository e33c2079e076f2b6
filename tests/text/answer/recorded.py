"""The recorded outputs of the package canitoolcall, and how each is read."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import replace

from canitoolcall.fixtures import Fixture, load_families

from inference.protocol.events import FinishReason
from inference.text.answer.events import AnswerEvent
from inference.text.answer.families import MISTRAL, AnswerFormat
from inference.text.answer.reasoning_tags import THINK
from inference.text.answer.tools import Tool, tools_of
from tests.text.answer.answers import format_of, read

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


class RecordedOutput:
    """One output with all that reading it takes."""

    def __init__(self, fixture: Fixture) -> None:
        self.text = fixture.raw_output
        self._form = format_for(fixture)
        self._tools: list[Tool] = tools_of(fixture.tools)
        self._opened = self._form.opened_by(_prompt(fixture))
        self._finish: FinishReason = "length" if "truncated" in fixture.tags else "stop"

    def read(self, cuts: Iterable[int] = ()) -> list[AnswerEvent]:
        """Its joined events, pushed in pieces that end at `cuts`."""
        return read(
            self._form,
            self.text,
            cuts,
            tools=self._tools,
            opened=self._opened,
            finish=self._finish,
        )


def changed_by(output: RecordedOutput, cuts: Iterable[int]) -> list[int]:
    """Those of `cuts` that change what is read where the text comes in two pieces."""
    events = output.read()
    return [cut for cut in cuts if output.read([cut]) != events]
