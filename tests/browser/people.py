"""What a person does before a test begins: sign in, ask something."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.stack import Stack


def sign_in(page: Page, stack: Stack, user: str = "alice") -> None:
    """Through the login page, into an empty chat."""
    page.goto(f"{stack.base_url}/accounts/login/")
    page.locator("input[name=login]").fill(user)
    page.locator("input[name=password]").fill(stack.password(user))
    page.locator("input[name=password]").press("Enter")
    expect(page.locator("#message")).to_be_focused()


def ask(page: Page, text: str, timeout_ms: float = 30_000) -> None:
    """Send a message and wait for the end of its answer."""
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")
    last = page.locator("[role=feed] article[data-role=assistant]").last
    expect(last.get_by_role("button", name="Copy", exact=True)).to_be_visible(timeout=timeout_ms)
