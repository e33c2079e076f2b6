"""`python -m tests.browser.screenshots`: draw docs/screenshots anew, from a server of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import expect

from tests.browser.chromium import ROOT, chromium
from tests.browser.looks import LOOKS, Look
from tests.stack import Stack

FOLDER = ROOT / "docs" / "screenshots"
# The address in the pictures is the one that people see after `make run`.
SHOWN_PORT = 8000


def main() -> None:
    """See the module."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="llamaweb-screenshots-") as name,
        Stack(Path(name) / "data") as stack,
        chromium() as browser,
    ):
        stack.wait_ready()
        for look in LOOKS:
            context = look.context(browser)
            page = context.new_page()
            page.goto(stack.base_url)
            expect(page.locator("[data-state=ready]")).to_be_visible()
            page.evaluate(SHOW_PORT, [str(stack.port), str(SHOWN_PORT)])
            page.screenshot(path=path_of(look), full_page=True)
            context.close()
            print(path_of(look).relative_to(ROOT))


def path_of(look: Look) -> Path:
    """Where the front page's picture is."""
    return FOLDER / f"front-{look}.png"


SHOW_PORT = """([port, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    texts.currentNode.data = texts.currentNode.data.replaceAll(`:${port}/`, `:${shown}/`);
  }
}"""

if __name__ == "__main__":
    main()
