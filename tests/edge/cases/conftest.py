"""Mock engines that the families' routes are answered by, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from inference.text.chat_template import CHATML_TEMPLATE
from tests.fakes.inference_api import FakeInference
from tests.fakes.mock_model import HERMES, MockModel

CALLS_ONLY = CHATML_TEMPLATE + "{# <tool_call> #}"  # nothing may stand in front of a forced call

Models = Callable[..., MockModel]
Serve = Callable[..., FakeInference]


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    """One model of each kind for all tests of a module."""
    made: dict[tuple[Any, ...], MockModel] = {}

    def model(reply: str = "", template: str = HERMES, fail_after: int = 0) -> MockModel:
        kind = (reply, template, fail_after)
        if kind not in made:
            made[kind] = MockModel(reply, template=template, fail_after=fail_after)
        return made[kind]

    yield model
    for each in made.values():
        each.close()


@pytest.fixture
def serve(fake: FakeInference, models: Models) -> Serve:
    """Let a model answer: it says `reply`, or what it is asked again."""

    def use(reply: str = "", **kind: Any) -> FakeInference:
        fake.script = models(reply, **kind).script
        fake.max_context = 4096
        return fake

    return use
