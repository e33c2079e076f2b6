"""Every process refuses a bad environment in the same way: one line a problem, status 78."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "manage": ["manage.py", "check"],
    "manage help": ["manage.py", "help"],
    "web": ["-m", "llamaweb.run.web"],
    "celery": ["-m", "celery", "-A", "llamaweb.celery", "report"],
}


def run(command: str, data_dir: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LLAMAWEB_")}
    clean.pop("DJANGO_SETTINGS_MODULE", None)
    return subprocess.run(
        [sys.executable, *COMMANDS[command]],
        cwd=ROOT,
        env={**clean, "LLAMAWEB_DATA_DIR": str(data_dir), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bad_environment_stops_every_process(command: str, tmp_path: Path) -> None:
    result = run(command, tmp_path / "data", LLAMAWEB_PORT="abc", LLAMAWEB_PROT="1")
    assert result.returncode == 78
    lines = result.stderr.splitlines()
    assert [line.split(":")[1].strip() for line in lines] == ["LLAMAWEB_PROT", "LLAMAWEB_PORT"]
    assert all(line.startswith("llamaweb: ") for line in lines)
    assert not (tmp_path / "data").exists()


def test_an_unusable_data_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = run("manage", tmp_path / "file" / "data")
    assert result.returncode == 78
    assert result.stderr.startswith("llamaweb: LLAMAWEB_DATA_DIR: ")
    assert "Traceback" not in result.stderr


def test_a_good_one_boots_with_private_files(tmp_path: Path) -> None:
    data = tmp_path / "data"
    result = run("manage", data)
    assert result.returncode == 0, result.stderr
    assert data.stat().st_mode & 0o777 == 0o700
    keys = list((data / "keys").iterdir())
    assert {key.name for key in keys} == {
        "django_secret",
        "api_key_hmac",
        "metrics_token",
        "redis_password",
    }
    assert all(key.stat().st_mode & 0o777 == 0o600 for key in keys)
