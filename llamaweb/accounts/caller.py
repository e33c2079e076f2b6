"""Who is calling, as the edges hand it down: a plain value, no row."""

from __future__ import annotations

from dataclasses import dataclass

from llamaweb.accounts.models import ApiKey, User


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller.

    `owner_key` is the unit of fairness and quota, `cache_scope` bounds whose prompts share the
    prompt cache; both are the user's, so a second key gains nothing. `key_id` None: a session.
    `model_names`: the only models that the key may be used with, empty for all of the user's.
    """

    user_id: int
    username: str
    is_staff: bool
    scopes: frozenset[str]
    key_id: int | None = None
    model_names: frozenset[str] = frozenset()

    @property
    def owner_key(self) -> str:
        """See the class."""
        return owner_key_of(self.user_id)

    @property
    def cache_scope(self) -> str:
        """See the class."""
        return f"user:{self.user_id}"


def owner_key_of(user_id: int | None) -> str:
    """A user's `owner_key`."""
    return f"user:{user_id}"


def caller_from_key(key: ApiKey) -> Caller:
    """The caller behind an authenticated key (its user loaded)."""
    user: User = key.user
    return Caller(
        user_id=user.pk,
        username=user.username,
        is_staff=user.is_staff,
        scopes=frozenset(key.scopes),
        key_id=key.pk,
        model_names=frozenset(key.model_names),
    )
