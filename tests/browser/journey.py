"""The chat as a person uses it: what they do and what they see, by the names on the page."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from tests.browser.looks import Look
from tests.browser.people import sign_in
from tests.stack import Stack

DESK = Look(1440, 900, "light")
ANSWER_MS = 60_000
SOON_MS = 10_000
RECONNECT_MS = 45_000
READ_STATE = """async (id) => {
  const reply = await fetch(`/api/app/conversations/${id}`);
  return { status: reply.status, body: await reply.json() };
}"""


def words(count: int, prefix: str = "w") -> str:
    """A text in which each word is there once, so that a lost or repeated one shows."""
    return " ".join(f"{prefix}{number:03}" for number in range(count))


class Chat:
    """One tab, signed in."""

    def __init__(self, page: Page, stack: Stack) -> None:
        self.page = page
        self.stack = stack

    @classmethod
    def of(cls, context: BrowserContext, stack: Stack, user: str = "alice") -> Chat:
        """A new tab of a new profile, signed in."""
        page = context.new_page()
        sign_in(page, stack, user)
        return cls(page, stack)

    def other_tab(self) -> Chat:
        """The same chat in a second tab of the same profile."""
        page = self.page.context.new_page()
        page.goto(self.page.url)
        return Chat(page, self.stack)

    def other_device(self, browser: Browser, user: str = "alice") -> Chat:
        """The same address in another profile; its context is closed with the browser."""
        chat = Chat.of(DESK.context(browser), self.stack, user)
        chat.page.goto(self.page.url)
        return chat

    # --- acts

    def send(self, text: str) -> None:
        """Write and press Enter."""
        self.page.locator("#message").fill(text)
        self.page.locator("#message").press("Enter")

    def press(self, name: str) -> None:
        """A button by its name; of several the last one."""
        self.page.get_by_role("button", name=name, exact=True).last.click()

    def act_on(self, message: Locator, name: str) -> None:
        """A button of a message, which shows when the pointer is over it."""
        message.hover()
        message.get_by_role("button", name=name, exact=True).click()

    # --- what is there

    @property
    def id(self) -> str:
        """The conversation's id, from the address."""
        self.page.wait_for_url("**/c/*")
        return self.page.url.rsplit("/", 1)[1]

    @property
    def questions(self) -> Locator:
        """All shown messages of people."""
        return self.page.locator("article[data-role=user]")

    @property
    def answers(self) -> Locator:
        """All shown answers."""
        return self.page.locator("article[data-role=assistant]")

    @property
    def answer(self) -> Locator:
        """The text of the last answer."""
        return self.answers.last.locator(".prose")

    @property
    def stop_button(self) -> Locator:
        """There while an answer is being written."""
        return self.page.get_by_role("button", name="Stop", exact=True)

    def wait_writing(self, length: int = 20, timeout_ms: int = ANSWER_MS) -> str:
        """Until the last answer has that many characters; its text."""
        self.page.wait_for_function(
            "(n) => [...document.querySelectorAll('article[data-role=assistant] .prose')]"
            ".at(-1)?.textContent.length >= n",
            arg=length,
            timeout=timeout_ms,
        )
        return self.answer.inner_text().strip()

    def wait_done(self, timeout_ms: int = ANSWER_MS) -> str:
        """Until the last answer is whole and stored; its text."""
        expect(self.stop_button).to_have_count(0, timeout=timeout_ms)
        copy = self.answers.last.get_by_role("button", name="Copy", exact=True)
        expect(copy).to_be_visible(timeout=timeout_ms)
        return self.answer.inner_text().strip()

    def stored(self, conversation_id: str | None = None) -> tuple[int, dict[str, Any]]:
        """What the server says of a conversation to whoever is signed in here."""
        reply = self.page.evaluate(READ_STATE, conversation_id or self.id)
        return reply["status"], reply["body"]

    def stored_answer(self) -> dict[str, Any]:
        """The newest answer as it is stored; `text` joined."""
        _, state = self.stored()
        found: dict[str, Any] = [m for m in state["messages"] if m["role"] == "assistant"][-1]
        found["text"] = "".join(p["text"] for p in found["parts"] if p["type"] == "text")
        return found
