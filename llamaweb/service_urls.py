"""Addresses of database and Redis in the dialects of their clients."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import environ


def celery_url(redis_url: str) -> str:
    """The form Celery wants: a socket is `redis+socket://:password@/path?virtual_host=0`."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    database = parse_qs(parts.query).get("db", ["0"])[0]
    credentials = parts.netloc.rpartition("@")[0]
    prefix = f"{credentials}@" if credentials else ""
    return f"redis+socket://{prefix}{parts.path}?virtual_host={database}"


def limits_url(redis_url: str) -> str:
    """The form the `limits` package wants."""
    scheme, _, rest = redis_url.partition("://")
    return f"{'redis+unix' if scheme == 'unix' else scheme}://{rest}"


def database_config(url: str, *, pool_size: int) -> dict[str, object]:
    """Django's settings for PostgreSQL at `url`, with a pool; or for a SQLite file."""
    config: dict[str, object] = dict(environ.Env.db_url_config(url))
    if config["ENGINE"] == "django.db.backends.sqlite3":
        return sqlite_config(str(config["NAME"]))
    given = config.get("OPTIONS")  # merged, because a socket host stands in there
    options: dict[str, object] = dict(given) if isinstance(given, dict) else {}
    options["pool"] = {"min_size": 1, "max_size": pool_size, "timeout": 10.0}
    return {**config, "OPTIONS": options, "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}


def sqlite_config(file: str) -> dict[str, object]:
    """Django's settings for a SQLite file that several processes write to."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": file,
        "OPTIONS": {
            # Take the write lock at BEGIN: a read that turns into a write can't wait for it.
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": (
                "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA busy_timeout=20000;"
                "PRAGMA mmap_size=134217728;PRAGMA cache_size=-20000;PRAGMA foreign_keys=ON;"
            ),
        },
    }


def email_config(url: str) -> dict[str, object]:
    """Django's EMAIL_* settings for a mail server at `url`."""
    return dict(environ.Env.email_url_config(url))
