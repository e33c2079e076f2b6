"""An empty SQLite database that was migrated before: whole servers start with a copy of it.

Made once for each state of the migrations, by whoever needs it first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from llamaweb.run.stamps import content_hash

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = ROOT / ".cache" / "seed-database"
MAKE_S: Final = 120.0


def copy_to(path: Path) -> None:
    """Put a copy at `path`, for its owner's eyes only."""
    source = _made()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(source.read_bytes())


def _made() -> Path:
    own = [path for app in ("*", "*/*") for path in ROOT.glob(f"{app}/migrations/*.py")]
    state = content_hash(ROOT, [*own, ROOT / "requirements.lock"])
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = FOLDER / f"{state}.sqlite3"
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.is_file():
            _make(found)
    return found


def _make(target: Path) -> None:
    """Of the states before, nothing is kept."""
    for old in FOLDER.glob("*.sqlite3"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="llamaweb-seed-") as name:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LLAMAWEB_")}
        kept.pop("DATABASE_URL", None)
        settings = {"LLAMAWEB_DATA_DIR": name, "DJANGO_SETTINGS_MODULE": "llamaweb.settings"}
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--no-input", "--skip-checks"],
            cwd=ROOT,
            env=kept | settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            timeout=MAKE_S,
            check=True,
        )
        draft = target.with_suffix(".partial")
        shutil.copyfile(Path(name) / "db.sqlite3", draft)
        draft.replace(target)
