"""The page that carries the browser app: who gets it, what it brings along, what it may load."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client
from django_vite.core.asset_loader import DjangoViteAssetLoader

from frontend.views import NOT_BUILT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("redis_server")]

MANIFEST = {"src/main.ts": {"file": "assets/main-1.js", "src": "src/main.ts", "isEntry": True}}
PATHS = ["/", "/c/01JABC-def", "/settings", "/settings/keys"]
HOSTILE = "</script><b>eve"
NONCE_RE = re.compile(r"'nonce-([^']+)'")


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page looks for the built app; nothing there yet."""
    path = tmp_path / "manifest.json"
    monkeypatch.setitem(settings.DJANGO_VITE["default"], "manifest_path", path)
    monkeypatch.setattr(DjangoViteAssetLoader, "_instance", None)
    return path


@pytest.fixture
def built(manifest: Path) -> None:
    """A build with one module."""
    manifest.write_text(json.dumps(MANIFEST))


@pytest.fixture
def page(client: Client, alice: Any, built: None) -> HttpResponse:
    """The shell as alice, who chose dark and German, gets it."""
    alice.theme, alice.language, alice.username = "dark", "de", HOSTILE
    alice.save()
    client.force_login(alice)
    response: HttpResponse = client.get("/")  # type: ignore[assignment]
    assert response.status_code == 200
    return response


@pytest.mark.parametrize("path", PATHS)
def test_a_stranger_is_sent_to_the_login_page_and_back(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 302
    assert response["Location"] == f"/accounts/login/?next={path}"


@pytest.mark.parametrize("path", PATHS)
def test_every_address_of_the_app_is_the_shell(
    client: Client, alice: Any, built: None, path: str
) -> None:
    client.force_login(alice)
    response = client.get(path)
    assert response.status_code == 200
    assert '<div id="app"></div>' in response.content.decode()
    assert client.head(path).status_code == 200
    assert client.post(path).status_code == 405


@pytest.mark.parametrize("path", ["/nothing", "/c/", "/c/a/b", "/c/a%20b", "/settings/x"])
def test_no_other_address_is(client: Client, alice: Any, built: None, path: str) -> None:
    client.force_login(alice)
    assert client.get(path).status_code == 404


def test_it_brings_the_apps_first_data_escaped(page: HttpResponse) -> None:
    text = page.content.decode()
    found = re.search(r'<script id="boot" type="application/json">(.*?)</script>', text, re.S)
    assert found is not None
    boot = json.loads(found[1])
    assert (boot["username"], boot["theme"], boot["is_staff"]) == (HOSTILE, "dark", False)
    assert boot["limits"]["text_chars"] > 0
    assert HOSTILE not in text


def test_it_has_the_readers_theme_and_language_from_the_start(page: HttpResponse) -> None:
    assert '<html lang="de" data-theme="dark">' in page.content.decode()


def test_only_what_bears_its_nonce_runs(page: HttpResponse) -> None:
    policy = page["Content-Security-Policy"]
    assert "unsafe" not in policy
    found = NONCE_RE.search(policy)
    assert found is not None
    text = page.content.decode()
    scripts = re.findall(r"<script (?![^>]*application/json)[^>]*>", text)
    assert len(scripts) == 1
    assert all(f'nonce="{found[1]}"' in script for script in scripts)
    assert not re.search(r"\son\w+=|\sstyle=", text)


def test_two_pages_never_share_a_nonce(client: Client, alice: Any, built: None) -> None:
    client.force_login(alice)
    assert len({client.get("/")["Content-Security-Policy"] for _ in range(3)}) == 3


def test_nobody_keeps_it_and_it_sets_the_forms_token(page: HttpResponse, client: Client) -> None:
    assert "no-store" in page["Cache-Control"]
    assert "llamaweb_csrf" in client.cookies
    assert 'action="/accounts/logout/"' in page.content.decode()


def test_without_a_build_it_says_so(client: Client, alice: Any, manifest: Path) -> None:
    client.force_login(alice)
    response = client.get("/")
    assert response.status_code == 503
    assert response.content.decode() == NOT_BUILT
