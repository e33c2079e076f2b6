"""Reading accounts: above all, whose key this is."""

from __future__ import annotations

import datetime as dt
import hmac
import threading
import time
from collections import OrderedDict

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from llamaweb.accounts import keys
from llamaweb.accounts.models import ApiKey, User
from llamaweb.lib.errors import AuthenticationError, NotFoundError

LAST_USED_EVERY = dt.timedelta(minutes=1)
# A well-formed key nobody has is asked for once in this time; a new key is random, so it can't
# have been asked for before it existed.
UNKNOWN_KEPT_S = 5.0
UNKNOWN_KEPT_COUNT = 1024
REVOKED_SHOWN = 50
INVALID_KEY = "Invalid API Key"


class _Unknown:
    """Digests of keys that don't exist: bounded in number and time."""

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()

    def has(self, digest: str) -> bool:
        """Whether `digest` was unknown a moment ago."""
        with self._lock:
            return self._until.get(digest, 0.0) > time.monotonic()

    def add(self, digest: str) -> None:
        """Remember that `digest` is unknown."""
        with self._lock:
            self._until[digest] = time.monotonic() + UNKNOWN_KEPT_S
            self._until.move_to_end(digest)
            while len(self._until) > UNKNOWN_KEPT_COUNT:
                self._until.popitem(last=False)


_unknown = _Unknown()


def api_key_authenticate(raw: str) -> ApiKey:
    """The living key `raw`, its user loaded; notes its use at most once a minute.

    Raises:
        AuthenticationError: malformed (no query is made), unknown, expired, revoked, or its user
            is inactive. The message is the same for all of them.
    """
    if not keys.is_well_formed(raw):
        raise AuthenticationError(INVALID_KEY)
    digest = keys.digest(raw, settings.API_KEY_HMAC_KEY)
    if _unknown.has(digest):
        raise AuthenticationError(INVALID_KEY)
    key = ApiKey.objects.select_related("user").filter(digest=digest).first()
    if key is None or not hmac.compare_digest(key.digest, digest):
        _unknown.add(digest)
        raise AuthenticationError(INVALID_KEY)
    now = timezone.now()
    if not _is_alive(key, now):
        raise AuthenticationError(INVALID_KEY)
    _note_use(key, now)
    return key


def _is_alive(key: ApiKey, now: dt.datetime) -> bool:
    is_expired = key.expires_at is not None and key.expires_at <= now
    return key.revoked_at is None and not is_expired and key.user.is_active


def _note_use(key: ApiKey, now: dt.datetime) -> None:
    """Write `last_used_at` if it is older than a minute; only one of many callers does."""
    limit = now - LAST_USED_EVERY
    if key.last_used_at is not None and key.last_used_at > limit:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lte=limit)
    if ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now):
        key.last_used_at = now


def api_keys_of(user: User) -> list[ApiKey]:
    """The keys of `user`, the newest first: all that aren't revoked, and some that are."""
    keys = user.api_keys.all()
    revoked = keys.exclude(revoked_at=None).order_by("-revoked_at")[:REVOKED_SHOWN]
    found = [*keys.filter(revoked_at=None), *revoked]
    return sorted(found, key=lambda key: (key.created_at, key.pk), reverse=True)


def api_key_of(*, user: User, key_id: int) -> ApiKey:
    """A key of `user`.

    Raises:
        NotFoundError: absent, or somebody else's.
    """
    key = user.api_keys.filter(pk=key_id).first()
    if key is None:
        raise NotFoundError("there is no such key")
    return key
