"""A Redis user for each model's engines, which reaches only that model's keys.

Its password is derived from the installation's secret key, so that the supervisors of several hosts
agree on it and nothing piles up on the server.

Where the server doesn't let us make users, engines use the installation's own credentials, and the
log says so once.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import logging
from urllib.parse import quote, urlsplit, urlunsplit

import redis
from django.conf import settings

from inference.queues.connect import sync_client, unavailable
from inference.queues.keys import model_keys, models_key

log = logging.getLogger(__name__)

_passwords: dict[str, tuple[str, str]] = {}  # model → its engines' user and password


@functools.cache
def engine_redis_url(model: str) -> str:
    """A URL for the engines of `model`; the user is made if it isn't there.

    Raises:
        UnavailableError: the server can't be reached.
    """
    user = f"{settings.REDIS_PREFIX}engine:{model}"
    password = derived_password(model)
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


def derived_password(model: str) -> str:
    """The password of `model`'s engines: nobody can tell it without the secret key."""
    message = f"redis engine user {model}".encode()
    return hmac.new(settings.SECRET_KEY.encode(), message, hashlib.sha256).hexdigest()


def _set_user(model: str, user: str, password: str) -> None:
    may_see = [f"~{model_keys(settings.REDIS_PREFIX, model).base}*"]
    may_see.append(f"~{models_key(settings.REDIS_PREFIX)}")
    may_do = ["+@all", "-@admin", "-@dangerous", "-scan", "-randomkey", "+info"]
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
