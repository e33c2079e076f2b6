"""The page that carries the browser app."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django_vite.core.asset_loader import DjangoViteAssetLoader


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the page looks for the built app; nothing there yet."""
    path = tmp_path / "manifest.json"
    monkeypatch.setitem(settings.DJANGO_VITE["default"], "manifest_path", path)
    monkeypatch.setattr(DjangoViteAssetLoader, "_instance", None)
    return path


def test_the_page_loads_the_app_with_a_nonce(manifest: Path) -> None:
    entry = {"file": "assets/main-abc.js", "isEntry": True, "css": ["assets/main-abc.css"]}
    manifest.write_text(json.dumps({"src/main.ts": {"src": "src/main.ts", **entry}}))
    response = Client().get("/")
    page = response.content.decode()
    assert response.status_code == 200
    assert "/static/assets/main-abc.js" in page
    assert "/static/assets/main-abc.css" in page
    nonce = re.search(r"'nonce-([^']+)'", response["Content-Security-Policy"])
    assert nonce is not None
    for tag in re.findall(r"<script[^>]*>", page):
        assert f'nonce="{nonce[1]}"' in tag


def test_two_pages_never_share_a_nonce(manifest: Path) -> None:
    entry = {"file": "assets/main-abc.js", "isEntry": True}
    manifest.write_text(json.dumps({"src/main.ts": {"src": "src/main.ts", **entry}}))
    policies = {Client().get("/")["Content-Security-Policy"] for _ in range(3)}
    assert len(policies) == 3


def test_a_missing_build_is_said_so(manifest: Path) -> None:
    response = Client().get("/")
    assert response.status_code == 503
    assert "make install" in response.content.decode()


def test_only_reading(manifest: Path) -> None:
    assert Client().post("/").status_code == 405
