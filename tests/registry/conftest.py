"""A data folder and a source of its own for every test."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inference.registry import download_fetch, download_job, downloads
from llamaweb.data_dir import DataDir
from tests.registry.hub_source import Hub
from tests.registry.source import Source


@pytest.fixture
def source() -> Iterator[Source]:
    """A web server of this test's."""
    with Source() as made:
        yield made


@pytest.fixture
def hub(source: Source, settings: Any) -> Hub:
    """A hub of this test's, which may be asked."""
    settings.HUB_URL = source.origin
    settings.HUB_TOKEN = ""
    settings.OUTBOUND_ALLOW = (ipaddress.ip_network("127.0.0.1"),)
    return Hub(source)


@pytest.fixture
def models_dir(tmp_path: Path, settings: Any) -> Path:
    """Where models go."""
    settings.DATA_DIR = DataDir(tmp_path / "data")
    settings.DATA_DIR.models.mkdir(parents=True)
    folder: Path = settings.DATA_DIR.models
    return folder


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Jobs that were asked for; nothing goes to a broker."""
    found: list[int] = []
    monkeypatch.setattr(downloads, "send", found.append)
    return found


@pytest.fixture
def downloading(
    models_dir: Path, sent: list[int], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """All that a download needs; this machine's own address may be fetched from."""
    settings.OUTBOUND_ALLOW = (ipaddress.ip_network("127.0.0.1"),)
    monkeypatch.setattr(download_fetch, "BACK_OFF_S", (0.0,))
    monkeypatch.setattr(download_job, "RESERVE_BYTES", 0)
    download_job.stopping.clear()
    return models_dir
