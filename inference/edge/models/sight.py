"""What of the models somebody may be told who follows them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.utils import timezone

from inference import api
from inference.edge.models.permissions import is_administrator
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.models import ApiKey

# Names of the models that one may use; None: all, and what is on its way.
Sight: TypeAlias = frozenset[str] | None


def sights(callers: Collection[Caller]) -> dict[Caller, Sight]:
    """Of each of `callers` but those whose key is revoked or expired, or whose user is inactive."""
    living = _living(callers)
    names = api.model_names_now({caller.user_id for caller in living})
    return {caller: _sight(caller, frozenset(names[caller.user_id])) for caller in living}


def _sight(caller: Caller, names: frozenset[str]) -> Sight:
    if is_administrator(caller, "change"):
        return None
    return names & caller.model_names if caller.model_names else names


def _living(callers: Collection[Caller]) -> set[Caller]:
    users = get_user_model().objects.filter(
        pk__in={caller.user_id for caller in callers}, is_active=True
    )
    active = set(users.values_list("pk", flat=True))
    is_valid = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    ids = {caller.key_id for caller in callers if caller.key_id is not None}
    keys = ApiKey.objects.filter(is_valid, pk__in=ids, revoked_at=None)
    valid = {None, *keys.values_list("pk", flat=True)}
    return {c for c in callers if c.user_id in active and c.key_id in valid}
