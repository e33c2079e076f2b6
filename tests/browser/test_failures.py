"""What can't go on says why where the person looks, and offers Retry (case T11)."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.journey import RECONNECT_MS, Chat, words
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(300)]

TEXT = words(20)
FAIL_AFTER = 40  # tokens
# An engine that fails each answer, and takes no long prompts.
ENV = {
    "LLAMAWEB_MOCK_DELAY_MS": "5",
    "LLAMAWEB_MOCK_FAIL_AFTER": str(FAIL_AFTER),
    "LLAMAWEB_ENGINE_CONTEXT": "512",
}


def test_a_failed_answer_keeps_its_text_and_can_be_tried_again(alice: Chat) -> None:
    alice.send(TEXT)
    expect(alice.answers.last).to_contain_text("The answer failed.", timeout=RECONNECT_MS)
    stored = alice.stored_answer()
    assert stored["state"] == "failed"
    assert stored["error_message"]
    assert TEXT.startswith(stored["text"])
    assert len(stored["text"]) == FAIL_AFTER
    expect(alice.answers.last).to_contain_text(stored["error_message"])
    assert alice.answer.inner_text().strip() == stored["text"].strip()
    alice.press("Retry")
    expect(alice.answers.last.get_by_role("group", name="Version 2 of 2")).to_be_visible()
    expect(alice.answers.last).to_contain_text("The answer failed.", timeout=RECONNECT_MS)
    alice.page.reload()
    expect(alice.answers.last.get_by_role("button", name="Retry")).to_be_visible()


def test_a_message_that_doesnt_fit_says_both_numbers(alice: Chat) -> None:
    alice.send(words(400))
    expect(alice.answers.last).to_contain_text("512 tokens", timeout=RECONNECT_MS)
    stored = alice.stored_answer()
    assert (stored["state"], stored["error_code"]) == ("failed", "context_length_exceeded")


def test_redis_away_for_a_while_is_said_and_survived(alice: Chat, stack: Stack) -> None:
    """Case C03: what was written is accepted; it ends, or says that it was interrupted."""
    stack.wait_replaced("redis", stack.kill("redis"), 60)
    alice.send(TEXT)
    expect(alice.questions.last).to_contain_text(TEXT, timeout=RECONNECT_MS)
    expect(alice.answers.last).to_contain_text("The answer failed.", timeout=RECONNECT_MS)
    assert len(alice.stored_answer()["text"]) == FAIL_AFTER
