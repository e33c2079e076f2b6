"""One server and one browser for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser.chromium import chromium
from tests.browser.looks import LOOKS, Look
from tests.stack import Stack


# Of a module, not of the session: while it lives no other event loop can run in this thread.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A whole server on the mock engine."""
    with Stack(tmp_path_factory.mktemp("browser") / "data") as made:
        made.wait_ready()
        yield made


@pytest.fixture(params=LOOKS, ids=str)
def look(request: pytest.FixtureRequest) -> Look:
    """Every size in every theme."""
    found: Look = request.param
    return found


@pytest.fixture
def context(browser: Browser, look: Look) -> Iterator[BrowserContext]:
    """A fresh profile."""
    made = look.context(browser)
    yield made
    made.close()
