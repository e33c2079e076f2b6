"""Every page: for whom it opens, what it may load, and that no name becomes markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from llamaweb.accounts.models import AuditEvent, User
from tests.admin.conftest import HOSTILE, MODELS, client_of

pytestmark = pytest.mark.django_db
OTHER = ("/admin/", "/admin/engines/", "/admin/engines/state/")


def address(label: str, *rest: object) -> str:
    return "/".join(["/admin", *label.split("."), *map(str, rest), ""])


def pages(rows: dict[str, Any]) -> list[str]:
    rows = rows | {"accounts.auditevent": AuditEvent.objects.latest("id").pk}
    found = [address(label) for label in MODELS]
    found += [address(label, pk, "change") for label, pk in rows.items()]
    engine = f"/admin/engines/{rows['inference.modelconfig']}/"
    return [*OTHER, engine, f"{engine}state/", *found]


def opened(client: Client, url: str) -> tuple[int, str]:
    response = client.get(url, follow=True)
    return response.status_code, response.content.decode()


class Resources(HTMLParser):
    """What a page loads and runs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.urls: list[str] = []
        self.inline: list[str] = []
        self._is_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in ("script", "img", "iframe") and found.get("src"):
            self.urls.append(str(found["src"]))
        if tag == "link" and found.get("href"):
            self.urls.append(str(found["href"]))
        is_data = found.get("type") == "application/json"
        self._is_script = tag == "script" and "src" not in found and not is_data
        if tag == "style":
            self.inline.append("<style>")
        self.inline += [name for name in found if name.startswith("on") and len(name) > 2]

    def handle_data(self, data: str) -> None:
        if self._is_script and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._is_script = False


@pytest.mark.parametrize("who", ["root", "viewer"])
def test_every_page_opens_and_stays_at_home(
    who: str, rows: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    client = client_of(request.getfixturevalue(who))
    for url in pages(rows):
        status, text = opened(client, url)
        assert status == 200, url
        assert HOSTILE not in text, url
        assert "<script>alert" not in text.replace("\\u003Cscript", ""), url
        found = Resources(text)
        outside = [
            u for u in found.urls if not u.startswith(("/static/", "/admin/", "data:image/"))
        ]
        assert outside == [], url
        assert found.inline == [], url


def test_what_was_said_is_on_no_page(admin: Client, rows: dict[str, Any]) -> None:
    for url in pages(rows):
        assert "secret" not in opened(admin, url)[1].lower().replace("lw-secret", ""), url
    found = opened(admin, "/admin/conversations/conversation/?q=secret")[1]
    assert rows["conversations.conversation"] not in found


def test_others_are_kept_out(rows: dict[str, Any], alice: User) -> None:
    for user in (None, alice):
        client = client_of(user)
        for url in pages(rows):
            response = client.get(url)
            assert response.status_code in (302, 403), url
            if response.status_code == 302:
                assert "/login/" in response["Location"], url


def test_staff_without_rights_see_nothing(rows: dict[str, Any]) -> None:
    from tests.factories import UserFactory

    client = client_of(UserFactory.create(username="nobody", is_staff=True))
    for url in pages(rows):
        if url != "/admin/":
            assert client.get(url).status_code == 403, url
    assert "Users" not in opened(client, "/admin/")[1]


def test_a_viewer_changes_nothing(
    viewer: User, rows: dict[str, Any], django_assert_max_num_queries: Any
) -> None:
    client = client_of(viewer)
    before = AuditEvent.objects.count()
    for label, pk in rows.items():
        for act in ("load", "drain", "unload", "default", "revoke", "cancel", "retry", "remove",
                    "end", "end-sessions", "deactivate"):  # fmt: skip
            response = client.post(address(label, pk, "act", act))
            assert response.status_code in (302, 403), (label, act)
        assert client.get(address(label, "add")).status_code == 403
        assert client.post(address(label, pk, "delete"), {"post": "yes"}).status_code == 403
        assert client.post(address(label, pk, "change"), {"name": "x"}).status_code == 403
        for action in ("load", "revoke", "cancel", "deactivate", "delete_selected"):
            client.post(address(label), {"action": action, "_selected_action": [pk], "post": "yes"})
    for act in ("load", "pin", "restart", "drain", "unload"):
        pk = rows["inference.modelconfig"]
        assert client.post(f"/admin/engines/{pk}/{act}/").status_code == 403
    assert AuditEvent.objects.count() == before


def test_acts_need_a_post_and_a_token(root: User, rows: dict[str, Any]) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(root)
    pk = rows["inference.modelconfig"]
    for url in (
        address("inference.modelconfig", pk, "act", "unload"),
        f"/admin/engines/{pk}/unload/",
    ):
        assert client.get(url).status_code == 405
        assert client.post(url).status_code == 403


POLICY_RE = re.compile(r"script-src ([^;]*)")


def test_the_policy_is_relaxed_here_only(admin: Client, rows: dict[str, Any]) -> None:
    for url in ("/admin/", "/admin/engines/", "/admin/accounts/user/"):
        policy = admin.get(url)["Content-Security-Policy"]
        scripts = POLICY_RE.search(policy)
        assert scripts is not None
        assert "'unsafe-eval'" in scripts[1]
        assert "'unsafe-inline'" not in scripts[1]
        assert re.search(r"style-src-attr 'unsafe-inline'", policy)
        assert not re.search(r"style-src [^;]*unsafe-inline", policy)
        assert "http" not in policy
    for url in ("/", "/accounts/login/", "/nowhere", "/adminx/"):
        policy = admin.get(url).get("Content-Security-Policy", "")
        assert "unsafe" not in policy, url


def test_german(admin: Client, rows: dict[str, Any]) -> None:
    for url, text in (
        ("/admin/", "Zurück zum Chat"),
        ("/admin/engines/", "Entladen"),
        ("/admin/engines/{inference.modelconfig}/", "Neu starten"),
        ("/admin/inference/modelconfig/hub/", "durchsuchen"),
        ("/admin/inference/modelconfig/add/", "Modell hinzufügen"),
        ("/admin/accounts/auditevent/", "Schlüssel"),
    ):
        url = url.replace("{inference.modelconfig}", str(rows["inference.modelconfig"]))
        page = admin.get(url, headers={"Accept-Language": "de"}).content.decode()
        assert text in page, url
