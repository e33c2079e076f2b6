"""What a chat costs: database commits, first-load bytes, elements of a page with a long chat."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.app_client import AppClient
from tests.bench.bundle import Bundle, first_load
from tests.bench.commits import Commits
from tests.bench.figures import BenchError
from tests.generated import table
from tests.stack import ROOT, Stack, wait_for

USER = "bench"
# Tokens of the two answers that are compared; both last longer than the time between two sweeps.
SHORT, LONG = 1_000, 3_000
DELAY_MS = 6.0
ANSWER_S = 120.0
LONG_CHAT = 2_000  # messages
OPEN_MS = 30_000
IDLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Page:
    """A long chat, opened in a browser: elements in the document, and milliseconds until its
    newest message was there."""

    elements: int
    articles: int
    open_ms: float


@dataclass(frozen=True, slots=True)
class ChatFigures:
    """All that is measured here. `commits`: by length of the answer in tokens."""

    commits: dict[int, int]
    idle_commits: int
    bundle: Bundle
    page: Page

    @property
    def commits_per_token(self) -> float:
        """What each further token costs."""
        return (self.commits[LONG] - self.commits[SHORT]) / (LONG - SHORT)


def measure(say: Callable[[str], None]) -> ChatFigures:
    """Run a server on the mock engine and look at it.

    Raises:
        BenchError: an answer didn't come.
    """
    env = {"LLAMAWEB_MOCK_DELAY_MS": str(DELAY_MS), "LLAMAWEB_ENGINE_CONTEXT": "16384"}
    with (
        tempfile.TemporaryDirectory(prefix="llamaweb-bench-") as folder,
        Stack(Path(folder) / "data", env=env) as stack,
    ):
        stack.wait_ready()
        stack.create_admin(USER)
        client = AppClient(stack.base_url)
        client.sign_in(USER, stack.password(USER))
        counted = {}
        with Commits(stack.data_dir / "db.sqlite3") as commits:
            before = commits.count()
            time.sleep(IDLE_S)
            idle = commits.count() - before
            for tokens in (SHORT, LONG):
                counted[tokens] = _commits_of_answer(client, commits, tokens)
                say(f"answer of {tokens} tokens: {counted[tokens]} commits")
        page = _page(stack)
    return ChatFigures(counted, idle, first_load(ROOT / "frontend" / "dist"), page)


def _commits_of_answer(client: AppClient, commits: Commits, tokens: int) -> int:
    before = commits.count()
    text = "x" * tokens  # the mock engine gives it back, a token a byte
    status, act = client.call("POST", "turns", {"parts": [{"type": "text", "text": text}]})
    if status != 201:
        raise BenchError(f"the turn was refused: {status} {act}")

    def answer() -> dict[str, Any] | None:
        _, state = client.call("GET", f"conversations/{act['conversation_id']}")
        (found,) = (m for m in state["messages"] if m["role"] == "assistant")
        return found if found["state"] != "streaming" else None

    found = wait_for("the answer is stored", answer, ANSWER_S, 0.25)
    if found["completion_tokens"] < tokens:
        raise BenchError(f"{found['completion_tokens']} tokens came, {tokens} were asked for")
    return commits.count() - before


def _page(stack: Stack) -> Page:
    from tests.browser.chromium import chromium

    conversation_id = subprocess.run(
        [sys.executable, "-m", "tests.seed_chat", USER, str(LONG_CHAT)],
        cwd=ROOT,
        env=stack.env,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()[-1]
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{stack.base_url}/accounts/login/")
        page.fill("input[name=login]", USER)
        page.fill("input[name=password]", stack.password(USER))
        page.press("input[name=password]", "Enter")
        page.wait_for_url(f"{stack.base_url}/")
        start_ts = time.monotonic()
        page.goto(f"{stack.base_url}/c/{conversation_id}")
        page.get_by_text(f"Answer {LONG_CHAT}:").wait_for(timeout=OPEN_MS)
        open_ms = (time.monotonic() - start_ts) * 1000
        return Page(
            elements=page.evaluate("document.querySelectorAll('*').length"),
            articles=page.locator("article").count(),
            open_ms=open_ms,
        )


def render(figures: ChatFigures) -> str:
    """As Markdown."""
    bundle, page = figures.bundle, figures.page
    rows = [
        ["database commits a token of an answer", f"{figures.commits_per_token:.4f}"],
        *(
            [f"commits of a whole turn, {tokens} tokens", str(count)]
            for tokens, count in sorted(figures.commits.items())
        ),
        [f"commits of the idle server in {IDLE_S:.0f} s", str(figures.idle_commits)],
        ["JavaScript before the app shows, gzip", f"{bundle.javascript / 1000:.1f} kB"],
        ["CSS before the app shows, gzip", f"{bundle.css / 1000:.1f} kB"],
        [f"elements of the page with {LONG_CHAT} messages", str(page.elements)],
        ["messages among them", str(page.articles)],
        ["from address to newest message", f"{page.open_ms:.0f} ms"],
    ]
    return table(["chat", ""], rows)
