"""Settings for the type checker: the real ones, without an environment and without a disk."""

from __future__ import annotations

from pathlib import Path

from llamaweb.boot import Boot, use
from llamaweb.data_dir import DataDir
from llamaweb.env import Env

_ROOT = Path("/nonexistent/llamaweb")
use(
    Boot(
        env=Env(data_dir=_ROOT),
        data_dir=DataDir(_ROOT),
        secret_key="only-for-the-type-checker-0000000000000000000000000",
        api_key_hmac_key="only-for-the-type-checker",
        metrics_token="only-for-the-type-checker",
        redis_url="redis://localhost:1/0",
        uses_embedded_redis=False,
    )
)

from llamaweb.settings import *  # noqa: E402, F403

# `makemigrations --check` looks for a history of migrations.
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
