"""One server and one browser for all tests here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.browser.chromium import chromium
from tests.browser.journey import DESK, Chat
from tests.browser.looks import LOOKS, Look
from tests.stack import Stack


# Of a module, not of the session: while it lives no other event loop can run in this thread.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as made:
        yield made


@pytest.fixture(scope="module")
def stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A whole server, on the mock engine unless the module's ENV says otherwise; alice is its
    administrator unless it HAS_NOBODY."""
    env: dict[str, str] = getattr(request.module, "ENV", {})
    with Stack(tmp_path_factory.mktemp("browser") / "data", env=env) as made:
        made.wait_ready()
        if not getattr(request.module, "HAS_NOBODY", False):
            made.create_admin("alice")
        yield made


@pytest.fixture
def alice(browser: Browser, stack: Stack) -> Iterator[Chat]:
    """An empty chat of alice's in a new profile, on a desk."""
    context = DESK.context(browser)
    yield Chat.of(context, stack)
    context.close()


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
