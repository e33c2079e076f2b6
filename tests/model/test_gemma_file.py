"""The second model is whole or absent, never something else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import gemma
from tests.gemma import FILE_NAME, GemmaMissingError, find_gemma


def test_it_is_put_together_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: find_gemma(tmp_path), range(2))
    assert first == second == tmp_path / FILE_NAME
    assert first.read_bytes()[:4] == b"GGUF"
    assert {path.name for path in tmp_path.iterdir()} == {FILE_NAME, "lock"}
    written_ns = first.stat().st_mtime_ns
    assert find_gemma(tmp_path).stat().st_mtime_ns == written_ns


def test_parts_of_something_else_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gemma, "SHA256", "0" * 64)
    with pytest.raises(GemmaMissingError, match="hash"):
        find_gemma(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemma, "PACKAGE", "no_such_model")
    with pytest.raises(GemmaMissingError, match="no-such-model-part1 isn't installed"):
        find_gemma(tmp_path)
