"""Downloads that must not become models: whole or not at all, never from where they may not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from inference.registry import download_fetch, download_job
from inference.registry.download_job import model_download
from tests.registry.downloading import (
    BODY,
    SHA256,
    failed,
    fresh,
    start,
)
from tests.registry.source import Source
from tests.registry.test_gguf_hostile import HOSTILE

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_wrong_digest(downloading: Path, source: Source) -> None:
    file = start(source, sha256="0" * 64)
    model_download(file.pk)
    assert SHA256 in failed(file, downloading)
    assert fresh(file).bytes_done == 0


def test_a_truncated_model(downloading: Path, source: Source) -> None:
    source.body = BODY[:-1]
    file = start(source)
    model_download(file.pk)
    assert "cut off" in failed(file, downloading)


def test_what_is_no_model_ends_with_its_first_bytes(downloading: Path, source: Source) -> None:
    source.body, source.endless = b"<!doctype html>" * 99, True
    file = start(source)
    model_download(file.pk)
    assert "not a GGUF file" in failed(file, downloading)


@pytest.mark.parametrize(
    "name",
    [
        "a key twice",
        "a huge tensor",
        "a template with a NUL",
        "a text in an array that goes on",
        "deep arrays",
        "many layers",
        "overlapping tensors",
        "pairs without end",
    ],
)
def test_hostile_headers(downloading: Path, source: Source, name: str) -> None:
    source.body, reason = HOSTILE[name]
    file = start(source)
    model_download(file.pk)
    assert re.search(reason, failed(file, downloading))


def test_an_endless_body(downloading: Path, source: Source, settings: Any) -> None:
    settings.DOWNLOAD_MAX_BYTES = 3_000_000
    source.endless = True
    file = start(source)
    model_download(file.pk)
    assert "3,000,000" in failed(file, downloading)


def test_a_body_that_says_it_is_too_large(downloading: Path, source: Source, settings: Any) -> None:
    settings.DOWNLOAD_MAX_BYTES = 1_000_000
    file = start(source)
    model_download(file.pk)
    assert "LLAMAWEB_DOWNLOAD_MAX_BYTES" in failed(file, downloading)


def test_no_room(downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download_job, "RESERVE_BYTES", 2**60)
    file = start(source)
    model_download(file.pk)
    assert "the disk has" in failed(file, downloading, kept=True)


def test_a_redirect_to_a_private_address(downloading: Path, source: Source) -> None:
    source.status, source.headers = 302, {"Location": "http://10.0.0.1/model.gguf"}
    file = start(source)
    model_download(file.pk)
    assert "LLAMAWEB_OUTBOUND_ALLOW" in failed(file, downloading, kept=True)


def test_a_private_address(downloading: Path, source: Source, settings: Any) -> None:
    settings.OUTBOUND_ALLOW = ()
    file = start(source)
    model_download(file.pk)
    assert "isn't public" in failed(file, downloading, kept=True)
    assert source.asked == []


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (503, 6), (429, 6)])
def test_refusals(downloading: Path, source: Source, status: int, tries: int) -> None:
    source.status = status
    file = start(source)
    model_download(file.pk)
    assert str(status) in failed(file, downloading, kept=tries > 1)
    assert len(source.asked) == tries


def test_a_server_that_is_away_for_a_moment(downloading: Path, source: Source) -> None:
    source.statuses = [503, 429]
    assert model_download(start(source).pk) == "ready"


def test_a_server_that_trickles(
    downloading: Path, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llamaweb.lib import outbound

    monkeypatch.setattr(outbound, "SLOW_AFTER_S", 0.2)
    monkeypatch.setattr(outbound, "SLOW_BYTES", 10**6)
    monkeypatch.setattr(download_fetch, "MAX_TRIES", 1)
    source.piece, source.pause_s = 100, 0.02
    file = start(source)
    model_download(file.pk)
    assert "too slowly" in failed(file, downloading, kept=True)
