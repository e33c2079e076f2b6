"""A Redis user for each model's engines, which sees only that model's keys.

Where the server doesn't let us make users, engines use the installation's own credentials, and the
log says so once.
"""

from __future__ import annotations

import functools
import logging
import secrets
from urllib.parse import quote, urlsplit, urlunsplit

import redis
from django.conf import settings

from inference.queues.connect import sync_client, unavailable
from inference.queues.keys import model_keys, models_key

log = logging.getLogger(__name__)

_passwords: dict[str, tuple[str, str]] = {}  # model → its engines' user and password


@functools.cache
def engine_redis_url(model: str) -> str:
    """A URL for the engines of `model`; the user is made anew by each supervisor.

    Raises:
        UnavailableError: the server can't be reached.
    """
    user = f"{settings.REDIS_PREFIX}engine:{model}"
    password = secrets.token_urlsafe(24)
    try:
        _set_user(model, user, password)
    except redis.ResponseError as error:
        log.warning("engines use the main Redis credentials: %s", error)
        return settings.REDIS_URL
    _passwords[model] = (user, password)
    return with_user(settings.REDIS_URL, user, password)


def renew_engine_users() -> None:
    """Make every user again that was made so far: a restarted server has forgotten them.

    Raises:
        UnavailableError: the server can't be reached.
    """
    for model, (user, password) in _passwords.items():
        _set_user(model, user, password)


def _set_user(model: str, user: str, password: str) -> None:
    may_see = [f"~{model_keys(settings.REDIS_PREFIX, model).base}*"]
    may_see.append(f"~{models_key(settings.REDIS_PREFIX)}")
    may_do = ["+@all", "-@admin", "-@dangerous", "+info"]
    rules = ["reset", "on", f">{password}", "resetchannels", *may_see, *may_do]
    client = sync_client(settings.REDIS_URL)
    try:
        with unavailable():
            client.execute_command("ACL", "SETUSER", user, *rules)  # type: ignore[no-untyped-call]
    finally:
        client.close()


def with_user(url: str, user: str, password: str) -> str:
    """`url` with other credentials."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{place}"
    return urlunsplit(parts._replace(netloc=netloc))
