"""The front page under a real server, as a person meets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.looks import Look
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(180)]

WATCH_POLICY = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""
FOCUSED = """() => {
  const style = getComputedStyle(document.activeElement);
  return [document.activeElement.tagName, style.outlineStyle, parseFloat(style.outlineWidth)];
}"""


@dataclass
class Seen:
    """What the browser did and complained about while the page was open."""

    page: Page
    urls: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        """Breaches of the content security policy."""
        found: list[str] = self.page.evaluate("window.violations")
        return found


@pytest.fixture
def front(context: BrowserContext, stack: Stack) -> Seen:
    """The page, ready."""
    page = context.new_page()
    seen = Seen(page)
    context.on("request", lambda request: seen.urls.append(request.url))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("console", lambda message: _note(message, seen))
    page.add_init_script(WATCH_POLICY)
    page.goto(stack.base_url)
    expect(page.locator("[data-state=ready]")).to_contain_text("Ready")
    return seen


def _note(message: Any, seen: Seen) -> None:
    if message.type in ("error", "warning"):
        seen.complaints.append(message.text)


def test_it_is_ready_quiet_and_stays_at_home(front: Seen, stack: Stack) -> None:
    assert front.complaints == []
    assert front.violations == []
    assert len(front.urls) >= 3
    outside = [u for u in front.urls if not u.startswith((stack.base_url, "data:"))]
    assert outside == []
    expect(front.page.get_by_text(f"{stack.base_url}/v1", exact=True)).to_be_visible()


def test_nothing_sticks_out_and_the_theme_is_the_readers(front: Seen, look: Look) -> None:
    width = front.page.evaluate("document.documentElement.scrollWidth")
    assert width == look.width
    paper = front.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    red = int(paper.removeprefix("rgb(").split(",")[0])
    assert (red > 200) == (look.theme == "light")


def test_copying(front: Seen, context: BrowserContext, stack: Stack) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=stack.base_url)
    figures = front.page.locator("figure")
    assert figures.count() == 2
    for index in range(2):
        button = figures.nth(index).get_by_role("button")
        button.click()
        expect(button).to_have_text("Copied")
        copied = front.page.evaluate("navigator.clipboard.readText()")
        assert copied == figures.nth(index).locator("code").inner_text()
    assert f"{stack.base_url}/v1/chat/completions" in copied


def test_the_keyboard_reaches_everything_and_shows_where_it_is(front: Seen) -> None:
    reached = []
    for _ in range(6):
        front.page.keyboard.press("Tab")
        tag, style, width = front.page.evaluate(FOCUSED)
        assert (style, width >= 2) == ("solid", True), tag
        reached.append(tag)
    assert reached == ["BUTTON", "PRE", "BUTTON", "PRE", "A", "A"]
