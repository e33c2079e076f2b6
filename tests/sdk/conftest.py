"""One server, on the mock engine, for the official clients of all API families."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sdk.opened import close_all
from tests.stack import Stack

CASES = ("anthropic", "bench", "ollama", "openai", "responses", "embeddings", "native", "limits")
FAILING = "tests.fakes.failing_model.failing"
pytest.register_assert_rewrite(*(f"tests.sdk.{name}_cases" for name in CASES))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A whole server whose mock engine echoes the last message; alice is its administrator."""
    env = {"LLAMAWEB_ENGINE_CLASSES": FAILING}
    with Stack(tmp_path_factory.mktemp("sdk") / "data", env=env) as made:
        made.wait_ready()
        made.create_admin("alice")
        yield made
        close_all()


@pytest.fixture(scope="module")
def key(stack: Stack) -> str:
    """An API key of alice's."""
    return stack.create_key("alice")
