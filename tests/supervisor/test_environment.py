"""What an engine's environment holds."""

from __future__ import annotations

import pytest

from inference.supervisor.child import scrubbed_environment


def test_an_engine_that_aborts_starts_no_debugger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GGML_NO_BACKTRACE", "")
    assert scrubbed_environment()["GGML_NO_BACKTRACE"] == "1"


def test_an_engine_gets_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAWEB_SECRET_KEY", "x")
    assert "LLAMAWEB_SECRET_KEY" not in scrubbed_environment()
