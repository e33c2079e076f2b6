"""Account pages and administration: nothing serious for axe, nothing foreign, no overflow.

One server for all, in the order of an instance's life: first nobody has an account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.axe import serious
from tests.browser.looks import Look
from tests.browser.people import sign_in
from tests.stack import Stack

pytestmark = [pytest.mark.browser, pytest.mark.stack, pytest.mark.timeout(420)]

PHONE, DESK = (390, 844), (1440, 900)
# Each theme, size and language with each other one, in few pairs.
LOOKS = (
    (Look(*DESK, "light"), "en"),
    (Look(*PHONE, "dark"), "de"),
    (Look(*DESK, "dark"), "de"),
    (Look(*PHONE, "light"), "en"),
)
HEADINGS = {
    "sign in": {"en": "Sign in", "de": "Anmelden"},
}
ADMIN_PAGES = (
    "",
    "accounts/user/",
    "accounts/user/add/",
    "accounts/user/{alice}/change/",
    "auth/group/add/",
    "accounts/apikey/",
    "accounts/invite/",
    "accounts/invite/add/",
    "usersessions/usersession/",
    "mfa/authenticator/",
    "accounts/sitesettings/1/change/",
    "inference/modelconfig/",
    "inference/modelconfig/add/",
    "inference/modelconfig/hub/",
    "inference/modelconfig/1/change/",
    "inference/modelfile/",
    "inference/generation/",
    "engines/",
    "engines/1/",
    "accounts/auditevent/",
    "conversations/conversation/",
)
LINK_RE = r"http://\S+(/setup/\S+/)"
SIGN_UP = (
    "from llamaweb.accounts.site_services import signup_mode_set; "
    "signup_mode_set(mode={mode!r}, actor=None)"
)
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class Visitor:
    """A browser profile and what its pages complained of."""

    stack: Stack
    page: Page
    faults: list[str] = field(default_factory=list)

    def listen(self) -> None:
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._asked)

    def _said(self, message: object) -> None:
        kind, text = getattr(message, "type", ""), getattr(message, "text", "")
        # The browser's own line for the status that `visit` looks at.
        if kind in ("error", "warning") and "server responded with a status of" not in text:
            self.faults.append(text)

    def _asked(self, request: object) -> None:
        url = getattr(request, "url", "")
        if not url.startswith((self.stack.base_url, "data:", "blob:")):
            self.faults.append(url)

    def visit(self, path: str, status: int = 200) -> None:
        """Open a page and look at it."""
        response = self.page.goto(self.stack.base_url + path)
        assert response is not None
        assert response.status == status, path
        self.look(path)

    def look(self, name: str) -> None:
        """See the module."""
        self.page.wait_for_load_state("networkidle")
        assert serious(self.page) == [], name
        assert self.page.evaluate(OVERFLOW) <= 0, name
        assert self.faults == [], name


Open = Callable[[tuple[Look, str]], Visitor]


ENV = {"LLAMAWEB_LOGIN_RATE": "3", "LLAMAWEB_LOGIN_ADDRESS_RATE": "1000"}
HAS_NOBODY = True  # at first


@pytest.fixture
def visitor(browser: Browser, stack: Stack) -> Iterator[Open]:
    """Opens fresh profiles of a look and a language."""
    contexts = []

    def opened(case: tuple[Look, str]) -> Visitor:
        look, language = case
        context = look.context(browser)
        contexts.append(context)
        context.add_cookies(
            [{"name": "llamaweb_language", "value": language, "url": stack.base_url}]
        )
        made = Visitor(stack, context.new_page())
        made.listen()
        return made

    yield opened
    for context in contexts:
        context.close()


def test_the_setup_page(visitor: Open, stack: Stack) -> None:
    path = stack.wait_output(LINK_RE).group(1)
    for case in LOOKS:
        visitor(case).visit(path)


@pytest.fixture
def people(stack: Stack) -> None:
    """An administrator and somebody without rights."""
    stack.create_admin("alice")
    if "bob" not in stack.manage("shell", "-v", "0", "-c", NAMES):
        stack.create_user("bob")


NAMES = "from llamaweb.accounts.models import User; print([u.username for u in User.objects.all()])"


@pytest.mark.usefixtures("people")
class TestPages:
    """There is an administrator."""

    def test_closed_doors(self, visitor: Open) -> None:
        for case in LOOKS:
            someone = visitor(case)
            someone.visit("/accounts/login/")
            heading = someone.page.get_by_role("heading", level=1)
            expect(heading).to_have_text(HEADINGS["sign in"][case[1]])
            someone.visit("/setup/nonsense/", 404)
            someone.visit("/accounts/nonsense/", 404)
            someone.visit("/accounts/signup/", 403)

    def test_too_many_tries(self, visitor: Open, stack: Stack) -> None:
        someone = visitor(LOOKS[1])
        someone.page.goto(f"{stack.base_url}/accounts/login/")
        for _ in range(4):
            someone.page.locator("input[name=login]").fill("nobody")
            someone.page.locator("input[name=password]").fill("wrong")
            with someone.page.expect_navigation() as navigation:
                someone.page.locator("input[name=password]").press("Enter")
        assert navigation.value is not None
        assert navigation.value.status == 429
        someone.look("429")

    def test_an_open_sign_up(self, visitor: Open, stack: Stack) -> None:
        stack.manage("shell", "-c", SIGN_UP.format(mode="open"))
        for case in LOOKS[:2]:
            visitor(case).visit("/accounts/signup/")

    def test_ones_own_account(self, visitor: Open, stack: Stack) -> None:
        for case in LOOKS:
            bob = visitor(case)
            sign_in(bob.page, stack, "bob")
            bob.visit("/accounts/sessions/")
            bob.visit("/accounts/2fa/")
            bob.visit("/accounts/2fa/totp/activate/")
            bob.visit("/accounts/password/change/")
            # A page that is refused is refused in the same look.
            bob.visit("/accounts/nonsense/", 404)

    def test_the_administration(self, visitor: Open, stack: Stack) -> None:
        code = "from llamaweb.accounts.models import User; "
        code += "print(User.objects.get(username='alice').pk)"
        pk = stack.manage("shell", "-v", "0", "-c", code).split()[-1]
        for case in LOOKS[:2]:
            alice = visitor(case)
            sign_in(alice.page, stack, "alice")
            for path in ADMIN_PAGES:
                alice.visit("/admin/" + path.format(alice=pk))
