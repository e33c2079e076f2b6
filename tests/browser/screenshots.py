"""`python -m tests.browser.screenshots`: draw docs/screenshots anew, from a server of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from tests.browser import screenshots_admin
from tests.browser.chromium import ROOT, chromium
from tests.browser.looks import LOOKS, Look
from tests.browser.people import ask, sign_in
from tests.stack import Stack

FOLDER = ROOT / "docs" / "screenshots"
# The address in the pictures is the one that people see after `make run`.
SHOWN_PORT = 8000

QUESTIONS = (
    "Names for a small sailing boat",
    "Why is the sky dark at night?",
    "How do I get the newest order of each customer in SQL?",
)
REPLY = """A **window function** numbers the rows of each group, newest first; keep number one.

```sql
SELECT customer_id, ordered_at, total
FROM (
  SELECT *, row_number() OVER (
    PARTITION BY customer_id ORDER BY ordered_at DESC
  ) AS place
  FROM orders
) AS ranked
WHERE place = 1;  -- the newest
```

| Way | Reads | Works in |
|---|---|---|
| Window function | all rows | everywhere |
| Lateral join | one row a group | PostgreSQL, MySQL 8 |

An index on `(customer_id, ordered_at)` makes both fast."""
# Beside the one that answers: one that loads when it is asked, one that is off.
MODELS = """
from inference.models import ModelConfig as C, ModelFile as F
def add(name, title, wanted, *tags, **fields):
    facts = {"kind": "model", "version": 3, "size": 1, "name": title, "quantization": "Q4_K_M",
        "context_len": 32768, "purpose": "text"}
    can = {"can": {"tool_calls": "object"}}
    file = F.objects.create(state="ready", path="/models/" + name, facts=facts, template_facts=can,
        templates={"": "<think>" if "reasoning" in tags else ""})
    C.objects.create(name=name, engine_class="mock", file=file, wanted=wanted, tags=tags, **fields)
add("qwen3-8b", "Qwen3 8B", "auto", "reasoning", aliases=["gpt-small"])
add("mistral-small-24b", "Mistral Small 24B", "auto", "slow")
add("phi-4", "Phi 4", "unloaded")
"""


def main() -> None:
    """See the module."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    screenshots_admin.main()
    with (
        tempfile.TemporaryDirectory(prefix="llamaweb-screenshots-") as name,
        Stack(Path(name) / "data", env={"LLAMAWEB_MOCK_REPLY": REPLY}) as stack,
        chromium() as browser,
    ):
        stack.wait_ready()
        stack.create_admin("alice")
        stack.manage("shell", "-c", MODELS)
        cookies = None
        for look in LOOKS:
            context = look.context(browser)
            page = context.new_page()
            page.goto(f"{stack.base_url}/accounts/login/")
            _draw(page, "login", look)
            if cookies is None:
                cookies = _talk(page, stack)
            context.add_cookies(cookies)  # one session, so that the settings show one
            _draw_app(page, stack, look)
            context.close()


def _talk(page: Page, stack: Stack) -> list[dict[str, object]]:
    sign_in(page, stack)
    for question in QUESTIONS:
        page.goto(stack.base_url)
        ask(page, question)
    context: BrowserContext = page.context
    return [dict(cookie) for cookie in context.cookies()]


def _draw_app(page: Page, stack: Stack, look: Look) -> None:
    page.goto(stack.base_url)
    expect(page.locator("#message")).to_be_focused()
    _draw(page, "empty", look)
    if look.width >= MIN_SIDEBAR_PX:
        page.get_by_role("link", name=QUESTIONS[-1]).click()
    else:
        page.locator("header [data-icon=menu]").click()
        page.get_by_role("link", name=QUESTIONS[-1]).click()
    expect(page.locator("[role=feed] table")).to_be_visible()
    expect(page.locator(".hljs-keyword").first).to_be_visible()
    _draw(page, "chat", look)
    if look.width in FEW_WIDTHS:
        page.get_by_role("button", name="Model: mock").click()
        expect(page.get_by_role("option", name="qwen3-8b")).to_be_visible()
        _draw(page, "choice", look)
    page.goto(f"{stack.base_url}/settings/keys")
    expect(page.locator("#keys")).to_be_visible()
    page.evaluate(SHOW_PORT, [str(stack.port), str(SHOWN_PORT)])
    _draw(page, "settings", look)


def _draw(page: Page, view: str, look: Look) -> None:
    path = path_of(view, look)
    page.screenshot(path=path)
    print(path.relative_to(ROOT))


def path_of(view: str, look: Look) -> Path:
    """Where the picture of a view is."""
    return FOLDER / f"{view}-{look}.png"


# From this width on the list of chats is always there.
MIN_SIDEBAR_PX = 961
FEW_WIDTHS = (390, 1440)  # of what needs no look at a tablet
SHOW_PORT = """([port, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    texts.currentNode.data = texts.currentNode.data.replaceAll(`:${port}/`, `:${shown}/`);
  }
}"""

if __name__ == "__main__":
    main()
