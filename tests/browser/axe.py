"""axe-core on a page (https://github.com/dequelabs/axe-core), in the locked version."""

from __future__ import annotations

from playwright.sync_api import Page

from tests.browser.chromium import ROOT

SCRIPT = ROOT / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
RUN = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter((rule) => ["serious", "critical"].includes(rule.impact))
    .map((rule) => `${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
}"""


def serious(page: Page) -> list[str]:
    """The serious and critical findings on what is shown now."""
    # Evaluated, not added as a tag: the page's policy would refuse that, rightly.
    page.evaluate(SCRIPT.read_text("utf-8"))
    found: list[str] = page.evaluate(RUN)
    return found
