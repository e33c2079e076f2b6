"""What every process pays for at its start, and what only those pay that serve pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Heavy, and of use only to who serves pages, fetches files, or has PostgreSQL.
NOT_EVERYWHERE = ("httpx2", "inference.admin", "llamaweb.accounts.admin", "psycopg", "unfold.admin")
SETUP = "import sys, django; django.setup()"
BREAK = """
from llamaweb.accounts.admin_base import Admin
Admin.list_display = ("no_such_column",)
from django.core.management import call_command
call_command("check")
"""


def python(code: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LLAMAWEB_")}
    clean.pop("DATABASE_URL", None)
    mine = {"DJANGO_SETTINGS_MODULE": "llamaweb.settings", "LLAMAWEB_DATA_DIR": str(data_dir)}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=clean | mine,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_process_without_pages_loads_no_administration(tmp_path: Path) -> None:
    names = f"print([name for name in {NOT_EVERYWHERE!r} if name in sys.modules])"
    result = python(f"{SETUP}; {names}", tmp_path / "data")
    assert (result.stdout.strip(), result.stderr) == ("[]", "")


def test_the_checks_still_look_at_every_page(tmp_path: Path) -> None:
    result = python(SETUP + BREAK, tmp_path / "data")
    assert result.returncode == 1
    assert "admin.E108" in result.stderr
