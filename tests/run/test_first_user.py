"""What the start-up lines say about the first user."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from llamaweb.run import first_user
from llamaweb.run.first_user import FirstUser

WAIT_S = 30.0
PROGRAM = "#!/usr/bin/env python3\nimport sys\n{}\n"


def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> FirstUser:
    """With a manage.py that does `code`."""
    (tmp_path / "manage.py").write_text(PROGRAM.format(code))
    monkeypatch.setattr(first_user, "ROOT", tmp_path)
    asked = FirstUser(dict(os.environ), tmp_path / "setup_link.log")
    asked.start()
    asked.join(WAIT_S)
    assert asked.is_done
    return asked


def test_a_link_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = "http://127.0.0.1:8000/setup/abc/"
    code = f"assert sys.argv[1:] == ['setup_link', '--quiet']; print({link!r})"
    asked = ask(tmp_path, monkeypatch, code)
    assert asked.line("python") == f"  first user: {link} (works once, for one hour)"
    assert link not in (tmp_path / "setup_link.log").read_text()


def test_nothing_is_told_when_somebody_administers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(tmp_path, monkeypatch, "").line("python") == ""


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "1/0"])
def test_a_failure_leaves_a_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    asked = ask(tmp_path, monkeypatch, code)
    assert asked.line(sys.executable).endswith("manage.py setup_link")
