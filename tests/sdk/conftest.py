"""One server, on the mock engine, for the official clients of all API families."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sdk.opened import close_all
from tests.stack import Stack

pytest.register_assert_rewrite(
    *(
        f"tests.sdk.{family}_cases"
        for family in ("anthropic", "ollama", "responses", "embeddings", "native", "limits")
    )
)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A whole server whose mock engine echoes the last message; alice is its administrator."""
    with Stack(tmp_path_factory.mktemp("sdk") / "data") as made:
        made.wait_ready()
        made.create_admin("alice")
        yield made
        close_all()


@pytest.fixture(scope="module")
def key(stack: Stack) -> str:
    """An API key of alice's."""
    return stack.create_key("alice")
