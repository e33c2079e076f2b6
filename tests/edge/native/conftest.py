"""llama-server's routes on the mock engine, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.fakes.inference_api import FakeInference
from tests.fakes.mock_model import MockModel

Speaks = Callable[[str], FakeInference]


@pytest.fixture
def speaks(fake: FakeInference) -> Iterator[Speaks]:
    """Let a model answer that says a text, or its prompt again."""
    made: list[MockModel] = []

    def set_model(reply: str = "") -> FakeInference:
        made.append(MockModel(reply))
        fake.script = made[-1].script
        return fake

    yield set_model
    for model in made:
        model.close()
