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

from inference.queues.connect import sync_client
from inference.queues.keys import model_keys, models_key

log = logging.getLogger(__name__)


@functools.cache
def engine_redis_url(model: str) -> str:
    """A URL for the engines of `model`; the user is made anew by each supervisor."""
    user = f"{settings.REDIS_PREFIX}engine:{model}"
    password = secrets.token_urlsafe(24)
    may_see = [f"~{model_keys(settings.REDIS_PREFIX, model).base}*"]
    may_see.append(f"~{models_key(settings.REDIS_PREFIX)}")
    may_do = ["+@all", "-@admin", "-@dangerous", "+info"]
    rules = ["reset", "on", f">{password}", "resetchannels", *may_see, *may_do]
    client = sync_client(settings.REDIS_URL)
    try:
        client.execute_command("ACL", "SETUSER", user, *rules)  # type: ignore[no-untyped-call]
    except redis.RedisError as error:
        log.warning("engines use the main Redis credentials: %s", error)
        return settings.REDIS_URL
    finally:
        client.close()
    return with_user(settings.REDIS_URL, user, password)


def with_user(url: str, user: str, password: str) -> str:
    """`url` with other credentials."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    netloc = f"{quote(user, safe='')}:{quote(password, safe='')}@{place}"
    return urlunsplit(parts._replace(netloc=netloc))
