"""The app under a real server, as a person meets it: what it loads, its look, its use by all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chromium import ROOT
from tests.browser.looks import LOOKS, Look
from tests.browser.people import ask, sign_in
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(180)]

ENV = {"LLAMAWEB_ENGINE_CONTEXT": "16384"}  # as test_hostile's, with which it shares its server
AXE = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
TEXT = "# Hello\n\nSome `code`:\n\n```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
VIEWS = ["/", "chat", "/settings", "/settings/keys", "/settings/account"]
WATCH_POLICY = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""
RUN_AXE = """() => axe.run().then((found) => found.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" ")}`))"""
FOCUSED = """() => {
  const style = getComputedStyle(document.activeElement);
  return [document.activeElement.tagName, style.outlineStyle, parseFloat(style.outlineWidth)];
}"""


@dataclass
class Alice:
    """Somebody with one chat who is signed in."""

    cookies: list[Any]
    chat_url: str


@dataclass
class Seen:
    """What the browser did and complained about while the page was open."""

    page: Page
    urls: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def alice(browser: Browser, stack: Stack) -> Alice:
    context = LOOKS[0].context(browser)
    page = context.new_page()
    sign_in(page, stack)
    ask(page, TEXT)
    expect(page).to_have_url(f"{stack.base_url}/c/{page.url.rsplit('/', 1)[1]}")
    made = Alice(list(context.cookies()), page.url)
    context.close()
    return made


@pytest.fixture
def seen(context: BrowserContext, alice: Alice) -> Seen:
    """A fresh tab of alice's, watched."""
    context.add_cookies(alice.cookies)
    page = context.new_page()
    watched = Seen(page)
    context.on("request", lambda request: watched.urls.append(request.url))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("console", lambda message: _note(message, watched))
    page.add_init_script(WATCH_POLICY)
    return watched


def _note(message: Any, seen: Seen) -> None:
    if message.type in ("error", "warning"):
        seen.complaints.append(message.text)


def _open(seen: Seen, stack: Stack, alice: Alice, view: str) -> Page:
    page = seen.page
    page.goto(alice.chat_url if view == "chat" else f"{stack.base_url}{view}")
    if view == "chat":
        expect(page.locator("[role=feed] table")).to_be_visible()
        expect(page.locator(".hljs-built_in, .hljs-number").first).to_be_visible()
    elif view == "/":
        expect(page.locator("#message")).to_be_focused()
    else:
        expect(page.locator("main h1")).to_be_focused()
    return page


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_quiet_fits_and_can_be_used_by_all(
    seen: Seen, stack: Stack, alice: Alice, view: str, look: Look
) -> None:
    page = _open(seen, stack, alice, view)
    assert page.evaluate("document.documentElement.scrollWidth") == look.width
    paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    red = int(paper.removeprefix("rgb(").split(",")[0])
    assert (red > 200) == (look.theme == "light")
    assert seen.complaints == []
    assert page.evaluate("window.violations") == []
    own = (stack.base_url, stack.base_url.replace("http", "ws", 1), "data:")
    assert [url for url in seen.urls if not url.startswith(own)] == []
    page.evaluate(AXE.read_text())
    assert page.evaluate(RUN_AXE) == []


def test_the_keyboard_reaches_the_chat_and_shows_where_it_is(
    seen: Seen, stack: Stack, alice: Alice
) -> None:
    page = _open(seen, stack, alice, "/")
    page.keyboard.press("Shift+Tab")
    tag, style, width = page.evaluate(FOCUSED)
    assert (tag in ("A", "BUTTON"), style, width >= 2) == (True, "solid", True)
    page.locator("a", has_text="Skip to the chat").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#message")).to_be_focused()
    page.locator("main").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("main")).to_be_focused()


def test_the_drawer_holds_the_focus_and_gives_it_back(
    seen: Seen, stack: Stack, alice: Alice, look: Look
) -> None:
    page = _open(seen, stack, alice, "/")
    button = page.get_by_role("button", name="Open the list of chats")
    if look.width > 960:
        expect(button).to_have_count(0)
        return
    button.click()
    drawer = page.get_by_role("dialog", name="Chats")
    expect(drawer).to_be_visible()
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate(
            "document.activeElement === document.body"
            " || document.querySelector('dialog').contains(document.activeElement)"
        )
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    expect(button).to_be_focused()


def test_copying_an_answer(seen: Seen, context: BrowserContext, stack: Stack, alice: Alice) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=stack.base_url)
    page = _open(seen, stack, alice, "chat")
    page.get_by_role("button", name="Copy the code").click()
    expect(page.get_by_text("Copied", exact=True)).to_be_attached()
    assert page.evaluate("navigator.clipboard.readText()").strip() == "print(1)"
    page.get_by_role("button", name="Copy", exact=True).last.click()
    page.wait_for_function(
        "(text) => navigator.clipboard.readText().then((copied) => copied === text)", arg=TEXT
    )


def test_a_theme_is_shown_at_once_and_before_any_script_later(
    browser: Browser, stack: Stack, alice: Alice
) -> None:
    context = LOOKS[0].context(browser)
    context.add_cookies(alice.cookies)
    page = context.new_page()
    page.goto(f"{stack.base_url}/settings")
    page.get_by_text("Dark", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    expect(page.get_by_text("Saved", exact=True)).to_be_attached()
    assert 'data-theme="dark"' in context.request.get(stack.base_url).text()
    page.get_by_text("As the system", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "system")
    context.close()


MODELS = """
from inference.models import ModelConfig as C
C.objects.create(name="second", engine_class="mock", aliases=["gpt-small"], tags=["fast"])
C.objects.create(name="thinker", engine_class="mock", chat_template="<think>", wanted="unloaded")
"""


@pytest.fixture(scope="module")
def models(stack: Stack) -> None:
    """Two more beside the default one: one that loads when it is asked, one that is off."""
    stack.manage("shell", "-c", MODELS)


@pytest.mark.usefixtures("models")
def test_models_are_found_and_chosen_by_all(
    seen: Seen, stack: Stack, alice: Alice, look: Look
) -> None:
    page = _open(seen, stack, alice, "/")
    button = page.get_by_role("button", name="Model: mock")
    button.click()
    picker = page.get_by_role("dialog", name="Choose a model")
    loaded = picker.get_by_role("group", name="Loaded")
    expect(loaded.get_by_role("option", selected=True)).to_contain_text("mock")
    off = picker.get_by_role("group", name="Not available now")
    expect(off.get_by_role("option")).to_contain_text("unloaded by an administrator")
    expect(off.get_by_role("img", name="Reasoning")).to_be_visible()
    box = picker.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= look.width
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= look.height
    page.evaluate(AXE.read_text())
    assert page.evaluate(RUN_AXE) == []
    search = picker.get_by_role("combobox", name="Search models")
    expect(search).to_be_focused()
    search.fill("gpt")
    expect(picker.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(picker).to_have_count(0)
    expect(button).to_be_focused()
    assert seen.complaints == []
    assert page.evaluate("window.violations") == []


@pytest.mark.usefixtures("models")
def test_the_next_message_and_another_answer_by_another_model(
    browser: Browser, stack: Stack, alice: Alice
) -> None:
    context = LOOKS[-1].context(browser)
    context.add_cookies(alice.cookies)
    page = context.new_page()
    page.goto(stack.base_url)
    page.get_by_role("button", name="Model: mock").click()
    page.keyboard.type("fast")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Model: second")).to_be_focused()
    ask(page, "Who are you?", timeout_ms=60_000)
    answer = page.locator("article[data-role=assistant]").last
    expect(answer.get_by_text("second")).to_be_visible()
    # It was loaded meanwhile; the list has been told.
    page.get_by_role("button", name="Model: second").click()
    loaded = page.get_by_role("listbox").get_by_role("group", name="Loaded")
    expect(loaded.get_by_role("option", name="second")).to_be_visible()
    page.keyboard.press("Escape")
    answer.hover()
    answer.get_by_role("button", name="Answer anew with another model").click()
    page.get_by_role("option", name="mock").click()
    expect(answer.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    expect(answer.get_by_text("mock")).to_be_visible()
    answer.get_by_role("button", name="Previous version").click()
    expect(answer.get_by_text("second")).to_be_visible()
    context.close()
