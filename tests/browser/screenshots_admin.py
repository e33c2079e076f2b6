"""`python -m tests.browser.screenshots_admin`: draw the administration's pictures in
docs/screenshots anew, from a server and a hub of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import ROOT, chromium
from tests.browser.looks import LOOKS, Look
from tests.browser.people import sign_in
from tests.registry.gguf_files import values, whole
from tests.registry.hub_source import Hub, found
from tests.registry.source import Source
from tests.stack import Stack

FOLDER = ROOT / "docs" / "screenshots"
WIDTHS = (390, 1440)
SHOWN_HUB = "huggingface.co"
MIB = 1 << 20
FOUND = (
    ("ada/Gemma-3-270M-it-GGUF", "gemma3", 268_000_000, 91_204, 118),
    ("ada/Gemma-3-4B-it-GGUF", "gemma3", 3_880_000_000, 84_310, 240),
    ("bob/Gemma-3-27B-it-GGUF", "gemma3", 27_000_000_000, 41_077, 96),
)
SIZES = {"Q2_K": 1700, "Q4_K_M": 2490, "Q8_0": 4130, "BF16": 7770}  # MiB
PEOPLE = ("alice", "bob")
ANSWERS = ("Why is the sky dark at night?", "Names for a small sailing boat")
ENV = {
    "LLAMAWEB_ENGINE_SLOTS": "3",
    "LLAMAWEB_MOCK_DELAY_MS": "40",
    "LLAMAWEB_MOCK_REPLY": "Because the universe is young, and most of its light hasn't come. "
    * 99,
    "LLAMAWEB_ENGINE_MEMORY_MIB": "6144",
    "LLAMAWEB_OUTBOUND_ALLOW": "127.0.0.1",
}
# Beside the one that answers; nothing of them is loaded.
MODELS = """
from inference.models import ModelConfig as C, ModelFile as F
def add(name, title, gb, **fields):
    facts = {"kind": "model", "version": 3, "size": int(gb * 10**9), "name": title,
        "quantization": "Q4_K_M", "context_len": 32768, "purpose": "text"}
    can = {"can": {"tool_calls": "object"}}
    file = F.objects.create(state="ready", label=name + "-Q4_K_M", facts=facts, template_facts=can,
        templates={"": "<think>" if "qwen" in name else ""}, path="/models/" + name + ".gguf")
    C.objects.create(name=name, engine_class="llama", file=file, **fields)
add("qwen3-4b", "Qwen3 4B", 2.5, wanted="auto")
add("mistral-7b", "Mistral 7B", 4.4, wanted="auto")
add("phi-4-mini", "Phi 4 mini", 2.3, wanted="unloaded")
"""
SHOW_HUB = """([port, shown]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    texts.currentNode.data = texts.currentNode.data.replaceAll(`127.0.0.1:${port}`, shown);
  }
}"""


def main() -> None:
    """See the module."""
    with (
        tempfile.TemporaryDirectory(prefix="llamaweb-screenshots-") as name,
        Source() as source,
        Stack(Path(name) / "data", env=ENV | {"LLAMAWEB_HUB_URL": source.origin}) as stack,
        chromium() as browser,
    ):
        publish(Hub(source, FOUND[1][0]))
        stack.wait_ready()
        stack.create_admin("alice")
        stack.create_user("bob")
        stack.manage("shell", "--no-imports", "--command", MODELS)
        asked = [
            _ask(browser, stack, user, text) for user, text in zip(PEOPLE, ANSWERS, strict=True)
        ]
        cookies = asked[0].context.cookies()
        for look in LOOKS:
            if look.width in WIDTHS:
                context = look.context(browser)
                context.add_cookies(cookies)
                draw_admin(context.new_page(), stack, look, source.port)
                context.close()


def publish(hub: Hub) -> None:
    """A hub with some repositories; one has files, with the header of a model of four billions."""
    entries = values(architecture="gemma3", name="Gemma 3") | {
        "gemma3.context_length": 131_072,
        "gemma3.embedding_length": 2560,
        "gemma3.feed_forward_length": 10_240,
        "gemma3.block_count": 34,
        "gemma3.attention.head_count": 8,
        "gemma3.attention.head_count_kv": 4,
        "gemma3.attention.key_length": 256,
        "gemma3.attention.value_length": 256,
    }
    body = whole(entries, {"blk.0.w": MIB})
    hub.add(**{f"gemma-3-4b-it-{quant}.gguf": body for quant in SIZES})
    hub.add(**{"mmproj-F16.gguf": body})
    sizes = [*SIZES.values(), 812]
    for listed, size in zip(hub.listed, sizes, strict=True):
        listed["lfs"]["size"] = size * MIB
    hub.publish()
    hub.finds(
        *(
            found(
                repo,
                downloads=downloads,
                likes=likes,
                gated="manual" if repo.startswith("bob") else False,
                gguf={"total": total, "architecture": architecture},
            )
            for repo, architecture, total, downloads, likes in FOUND
        )
    )


def draw_admin(page: Page, stack: Stack, look: Look, hub_port: int) -> None:
    """Every picture of one look."""
    page.goto(f"{stack.base_url}/admin/inference/modelconfig/")
    mock = page.locator("#result_list tr", has_text="mock")
    expect(mock.locator("[data-live=state]")).to_have_text("ready")
    _draw(page, "models", look)
    page.goto(f"{stack.base_url}/admin/engines/")
    expect(page.locator("section.lw-model", has_text="mock")).to_contain_text("ready")
    _draw(page, "engines", look)
    page.get_by_role("link", name="mock", exact=True).click()
    expect(page.locator("[data-f=slots]")).to_contain_text("alice")
    expect(page.locator("[data-f=decode]")).not_to_have_text("–")
    _draw(page, "engine", look)
    page.goto(f"{stack.base_url}/admin/inference/modelconfig/hub/?q=gemma")
    page.evaluate(SHOW_HUB, [str(hub_port), SHOWN_HUB])
    _draw(page, "hub-search", look)
    page.get_by_role("link", name=FOUND[1][0]).click()
    expect(page.locator(".lw-choices")).to_contain_text("fits")
    page.evaluate(SHOW_HUB, [str(hub_port), SHOWN_HUB])
    _draw(page, "hub", look)


def _ask(browser: Browser, stack: Stack, user: str, text: str) -> Page:
    """Somebody whose answer is being written."""
    page = Look(1440, 900, "light").context(browser).new_page()
    sign_in(page, stack, user)
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")
    expect(page.locator("[role=feed] article[data-role=assistant]")).to_contain_text("universe")
    return page


def _draw(page: Page, view: str, look: Look) -> None:
    path = FOLDER / f"{view}-{look}.png"
    page.screenshot(path=path)
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
