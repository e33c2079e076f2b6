"""An answer survives reloads, lost networks and killed processes: it ends whole, each word once.

On the mock engine, which gives the message back, slowly.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.journey import RECONNECT_MS, SOON_MS, Chat, words
from tests.stack import Stack, wait_for

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(420)]

# Two web processes and a slow engine.
ENV = {
    "LLAMAWEB_MOCK_DELAY_MS": "15",
    "LLAMAWEB_WEB_WORKERS": "2",
    "LLAMAWEB_ENGINE_CONTEXT": "16384",
}
TEXT = words(120)  # about 9 s
LONG_TEXT = words(450)  # about 35 s
OFFLINE_MS = 20_000


def test_a_reload_shows_the_text_so_far_at_once_and_goes_on(alice: Chat) -> None:
    alice.send(TEXT)
    before = alice.wait_writing(200)
    alice.page.reload()
    first = alice.wait_writing(1, SOON_MS)
    assert len(first) >= len(before)
    assert TEXT.startswith(first)
    assert alice.wait_done() == TEXT


def test_a_second_tab_in_the_middle_and_the_stored_text_are_the_same(alice: Chat) -> None:
    alice.send(TEXT)
    alice.wait_writing(200)
    tab = alice.other_tab()
    assert len(tab.wait_writing(1, SOON_MS)) >= 200
    assert tab.wait_done() == TEXT
    assert alice.wait_done() == TEXT
    assert alice.stored_answer()["text"] == TEXT


def test_a_lost_network_costs_nothing(alice: Chat) -> None:
    """Case C01: reload at 30 %, no network for 20 s at 60 %, a second tab."""
    alice.send(LONG_TEXT)
    alice.wait_writing(len(LONG_TEXT) * 3 // 10)
    alice.page.reload()
    alice.wait_writing(len(LONG_TEXT) * 6 // 10)
    alice.page.context.set_offline(True)
    banner = alice.page.get_by_role("strong").filter(has_text="No connection.")
    expect(banner).to_be_visible(timeout=RECONNECT_MS)
    alice.page.wait_for_timeout(OFFLINE_MS)
    alice.page.context.set_offline(False)
    tab = alice.other_tab()
    assert alice.wait_done(RECONNECT_MS) == LONG_TEXT
    assert tab.wait_done(RECONNECT_MS) == LONG_TEXT
    expect(banner).to_have_count(0)


def test_killed_web_processes_are_replaced_under_a_running_answer(
    alice: Chat, stack: Stack
) -> None:
    """Whoever accepts the reconnect has never heard of this answer."""
    alice.send(LONG_TEXT)
    alice.wait_writing(100)
    for _ in range(2):
        old = stack.kill("web")
        alice.wait_writing(len(alice.answer.inner_text()) + 200, RECONNECT_MS)
        wait_for("two web processes", lambda: len(stack.processes("web")) == 2, 60)
        assert old not in [process.pid for process in stack.processes("web")]
    assert alice.wait_done() == LONG_TEXT


def test_a_killed_engine_goes_on_from_the_last_token(alice: Chat, stack: Stack) -> None:
    alice.send(TEXT)
    alice.wait_writing(200)
    stack.wait_replaced("engine", stack.kill("engine"), 60)
    assert alice.wait_done() == TEXT
    assert alice.stored_answer()["state"] == "done"


def test_killed_jobs_only_delay_the_end(alice: Chat, stack: Stack) -> None:
    alice.send(TEXT)
    alice.wait_writing(len(TEXT) * 8 // 10)
    stack.kill("jobs")
    assert alice.wait_done() == TEXT
    assert alice.stored_answer()["text"] == TEXT


def test_the_place_in_the_queue_is_shown_and_stop_takes_a_waiting_one_out(
    browser: Browser, stack: Stack, alice: Chat
) -> None:
    """Case C07 while queued: four slots are taken, the fifth and sixth wait."""
    running = []
    for _ in range(4):
        chat = alice.other_tab()
        chat.page.goto(stack.base_url)
        chat.send(LONG_TEXT)
        chat.wait_writing(5)
        running.append(chat)
    waiting = alice.other_tab()
    waiting.page.goto(stack.base_url)
    waiting.send("first in the queue")
    expect(waiting.answers.last).to_contain_text("Next in the queue", timeout=SOON_MS)
    alice.send("second in the queue")
    expect(alice.answers.last).to_contain_text(re.compile("2nd of 2 in the queue"))
    waiting.press("Stop")
    expect(waiting.answers.last).to_contain_text("Stopped.", timeout=SOON_MS)
    expect(alice.answers.last).to_contain_text("Next in the queue", timeout=SOON_MS)
    for chat in running:
        chat.press("Stop")
    for chat in running:
        expect(chat.answers.last).to_contain_text("Stopped.", timeout=SOON_MS)
    assert alice.wait_done() == "second in the queue"


def test_stop_keeps_what_was_written_and_retry_writes_another(alice: Chat) -> None:
    """Case C07 while an answer is written."""
    alice.send(TEXT)
    alice.wait_writing(50)
    alice.press("Stop")
    expect(alice.stop_button).to_have_count(0, timeout=SOON_MS)
    expect(alice.answers.last).to_contain_text("Stopped.")
    stored = alice.stored_answer()
    assert stored["state"] == "stopped"
    assert stored["text"].strip() == alice.answer.inner_text().strip()
    assert TEXT.startswith(stored["text"])
    alice.press("Retry")
    expect(alice.answers.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    assert alice.wait_done() == TEXT
    alice.act_on(alice.answers.last, "Previous version")
    expect(alice.answers.last).to_contain_text("Stopped.")
    assert alice.answer.inner_text().strip() == stored["text"].strip()


def test_switching_chats_doesnt_lose_a_word(alice: Chat, stack: Stack) -> None:
    alice.send(TEXT)
    alice.wait_writing(100)
    first = alice.id
    alice.page.get_by_role("link", name="New chat").click()
    alice.send("and something else")
    assert alice.wait_done() == "and something else"
    alice.page.locator(f"li[data-id={first}] a").click()
    assert len(alice.wait_writing(1, SOON_MS)) > 100
    assert alice.wait_done() == TEXT
