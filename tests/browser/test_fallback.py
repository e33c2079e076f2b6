"""Where WebSockets don't get through, server-sent events carry the chat: nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, WebSocketRoute, expect

from tests.browser.journey import DESK, RECONNECT_MS, SOON_MS, Chat, words
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(300)]

# Two web processes and a slow engine.
ENV = {
    "LLAMAWEB_MOCK_DELAY_MS": "15",
    "LLAMAWEB_WEB_WORKERS": "2",
    "LLAMAWEB_ENGINE_CONTEXT": "16384",
}
TEXT = words(120)  # about 9 s
LONG_TEXT = words(250)  # about 20 s
SLOW_MS = 20_000  # three failed tries come before the fallback


class Proxy:
    """Between the browser and the server: lets WebSockets through, or doesn't."""

    is_open = False

    def meet(self, route: WebSocketRoute) -> None:
        """A WebSocket that was opened."""
        if self.is_open:
            route.connect_to_server()
        else:
            route.close(code=1011)


@pytest.fixture
def proxy() -> Proxy:
    return Proxy()


@pytest.fixture
def alice(browser: Browser, stack: Stack, proxy: Proxy) -> Iterator[Chat]:
    """A new chat behind the proxy, which has fallen back."""
    context = DESK.context(browser)
    context.route_web_socket("**/api/app/socket", proxy.meet)
    chat = Chat.of(context, stack)
    expect(_banner(chat)).to_be_visible(timeout=SLOW_MS)
    yield chat
    context.close()


def _banner(chat: Chat) -> Locator:
    return chat.page.get_by_text("a slower way is used")


def test_an_answer_comes_and_a_reload_in_its_middle_costs_nothing(alice: Chat) -> None:
    alice.send(LONG_TEXT)
    before = alice.wait_writing(200)
    alice.page.reload()
    first = alice.wait_writing(1, SLOW_MS)
    assert len(first) >= len(before)
    assert LONG_TEXT.startswith(first)
    assert alice.wait_done() == LONG_TEXT
    assert alice.stored_answer()["text"] == LONG_TEXT


def test_acts_are_done_and_seen(alice: Chat) -> None:
    alice.send(LONG_TEXT)
    alice.wait_writing(50)
    alice.press("Stop")
    expect(alice.answers.last).to_contain_text("Stopped.", timeout=SOON_MS)
    alice.send(TEXT)
    expect(alice.stop_button).to_be_visible(timeout=SOON_MS)
    assert alice.wait_done() == TEXT
    alice.act_on(alice.answers.last, "Answer anew")
    expect(alice.stop_button).to_be_visible(timeout=SOON_MS)
    expect(alice.answers.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    assert alice.wait_done() == TEXT
    row = alice.page.locator(f"li[data-id='{alice.id}']")
    row.get_by_role("button").click()
    alice.page.get_by_role("menuitem", name="Delete").click()
    expect(row).to_have_count(0)
    alice.press("Undo")
    expect(row).to_have_count(1, timeout=SOON_MS)


def test_another_chat_is_followed_without_losing_a_word_of_the_first(alice: Chat) -> None:
    alice.send(TEXT)
    alice.wait_writing(100)
    first = alice.id
    alice.page.get_by_role("link", name="New chat").click()
    alice.send("and something else")
    assert alice.wait_done() == "and something else"
    alice.page.locator(f"li[data-id='{first}'] a").click()
    assert alice.wait_done() == TEXT


def test_a_killed_web_process_and_a_lost_network(alice: Chat, stack: Stack) -> None:
    alice.send(LONG_TEXT)
    alice.wait_writing(100)
    for _ in range(2):
        stack.kill("web")
        wait_for("two web processes", lambda: len(stack.processes("web")) == 2, 60)
    alice.wait_writing(len(LONG_TEXT) // 2, RECONNECT_MS)
    alice.page.context.set_offline(True)
    alice.page.wait_for_timeout(3_000)
    alice.page.context.set_offline(False)
    assert alice.wait_done(RECONNECT_MS) == LONG_TEXT


def test_a_websocket_that_gets_through_takes_over_in_the_middle(alice: Chat, proxy: Proxy) -> None:
    alice.send(LONG_TEXT)
    alice.wait_writing(200)
    proxy.is_open = True
    alice.press("Retry now")  # else within a minute
    expect(_banner(alice)).to_have_count(0, timeout=SOON_MS)
    assert alice.wait_done() == LONG_TEXT


THINKER = """
from inference.models import ModelConfig
from inference.text.chat_template import CHATML_TEMPLATE as TEMPLATE
TEMPLATE += "{# <think> #}"
ModelConfig.objects.create(name="thinker", engine_class="mock", chat_template=TEMPLATE)
"""


def test_thoughts_are_ended_by_whoever_waits(alice: Chat, proxy: Proxy, stack: Stack) -> None:
    stack.manage("shell", "-c", THINKER)
    alice.page.reload()
    alice.press("Model: mock")
    alice.page.keyboard.type("thinker")
    alice.page.keyboard.press("Enter")
    for proxy.is_open in (False, True):
        if proxy.is_open:
            alice.press("Retry now")
            expect(_banner(alice)).to_have_count(0, timeout=SOON_MS)
        alice.send(f"<think>{LONG_TEXT}")
        expect(alice.answers.last).to_contain_text("Thinking", timeout=SLOW_MS)
        alice.press("Answer now")
        expect(alice.answers.last.locator(".prose")).to_be_visible(timeout=SOON_MS)
        expect(alice.page.get_by_role("button", name="Answer now")).to_have_count(0)
        alice.press("Stop")
        expect(alice.answers.last).to_contain_text("Stopped.", timeout=SOON_MS)


def test_a_browser_that_refuses_websockets(browser: Browser, stack: Stack) -> None:
    """As a policy of its owner may."""
    context = DESK.context(browser)
    context.add_init_script("window.WebSocket = class { constructor() { throw new Error(); } };")
    chat = Chat.of(context, stack)
    chat.send(TEXT)
    assert chat.wait_done() == TEXT
    expect(_banner(chat)).to_be_visible()
    context.close()
