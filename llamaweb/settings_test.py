"""Settings for the tests: an instance of its own in a temporary folder, its Redis included.

The server behind `redis_url` is started by the fixture `redis_server` (tests/conftest.py).
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from llamaweb.boot import boot_from, use
from llamaweb.env import Env

_ROOT = Path(tempfile.mkdtemp(prefix="llamaweb-test-"))
_OWNER = os.getpid()


def _remove() -> None:
    if os.getpid() == _OWNER:  # not in forked children
        shutil.rmtree(_ROOT, ignore_errors=True)


atexit.register(_remove)
use(
    boot_from(
        Env(
            data_dir=_ROOT,
            redis_prefix=f"test-{secrets.token_hex(4)}:",
            engine="mock",
            engine_threads=1,
            failed_key_rate=1000,
            login_rate=1000,
            login_address_rate=10_000,
        )
    )
)

from llamaweb.settings import *  # noqa: E402, F403
from llamaweb.settings import DATABASES  # noqa: E402

# A file, because other threads and processes must see it.
DATABASES["default"]["TEST"] = {"NAME": str(_ROOT / "test.sqlite3")}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "testserver"]
CELERY_TASK_ALWAYS_EAGER = False
