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


class Servers:
    """One server at a time: the modules of one configuration that follow each other share it."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._stack: Stack | None = None
        self._env: dict[str, str] = {}

    def get(self, env: dict[str, str], *, has_nobody: bool) -> Stack:
        """A running one on the mock engine, unless `env` says otherwise; alice is its
        administrator unless it `has_nobody`, which only a new one has."""
        if self._stack is None or self._env != env or has_nobody or not self._stack.is_running:
            self.close()
            self._stack, self._env = self._started(env), dict(env)
        self._stack.wait_ready()
        if not has_nobody:
            self._stack.create_admin("alice")
        return self._stack

    def close(self) -> None:
        """Nothing of it is left."""
        if self._stack is not None:
            self._stack.kill_all()
        self._stack = None

    def _started(self, env: dict[str, str]) -> Stack:
        made = Stack(self._folders.mktemp("browser") / "data", env=env)
        made.start()
        return made


@pytest.fixture(scope="package")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    made = Servers(tmp_path_factory)
    yield made
    made.close()


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest, servers: Servers) -> Stack:
    """A whole server for the module's ENV; it HAS_NOBODY where the module says so."""
    env: dict[str, str] = getattr(request.module, "ENV", {})
    return servers.get(env, has_nobody=getattr(request.module, "HAS_NOBODY", False))


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
