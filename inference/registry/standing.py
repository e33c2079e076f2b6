"""Whether those whose requests run may still have them answered, as the database says now."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.utils import timezone

from inference.models import ModelConfig
from inference.registry.model_access import access_model_ids
from llamaweb.accounts.models import ApiKey


class Standing(NamedTuple):
    """Who asked, by which key (0: none), for which model."""

    user_id: int
    key_id: int
    model: str


def standings_lost(asked: Collection[Standing]) -> set[Standing]:
    """Those whose key is revoked, expired or not for the model any more, whose user is inactive or
    gone, or who may not use the model."""
    users = active_users({one.user_id for one in asked})
    keys = living_keys({one.key_id for one in asked if one.key_id})
    models = _models({one.model for one in asked}, users)
    return {one for one in asked if not _stands(one, users, keys, models)}


def _stands(
    one: Standing,
    users: set[int],
    keys: dict[int, tuple[int, list[str]]],
    models: dict[int, set[str]],
) -> bool:
    if one.user_id not in users or one.model not in models[one.user_id]:
        return False
    if not one.key_id:
        return True
    owner_id, only = keys.get(one.key_id, (0, []))
    return owner_id == one.user_id and (not only or one.model in only)


def active_users(user_ids: Collection[int]) -> set[int]:
    """Those of the users who may sign in."""
    found = get_user_model().objects.filter(pk__in=user_ids, is_active=True)
    return set(found.values_list("pk", flat=True))


def living_keys(key_ids: Collection[int]) -> dict[int, tuple[int, list[str]]]:
    """Owner and models of the living ones."""
    if not key_ids:
        return {}
    is_valid = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    found = ApiKey.objects.filter(is_valid, pk__in=key_ids, revoked_at=None)
    rows = found.values_list("pk", "user_id", "model_names")
    return {key_id: (user_id, only) for key_id, user_id, only in rows}


def _models(names: Collection[str], user_ids: Collection[int]) -> dict[int, set[str]]:
    """Those of `names` that each user may use; of whom is asked only where one is restricted."""
    rows = ModelConfig.objects.filter(name__in=names, is_enabled=True)
    enabled = list(rows.values_list("pk", "name", "is_restricted"))
    everybodys = {name for _, name, is_restricted in enabled if not is_restricted}
    found = {user_id: set(everybodys) for user_id in user_ids}
    if len(everybodys) < len(enabled):
        for user_id, ids in access_model_ids(user_ids).items():
            found[user_id] = {name for pk, name, _ in enabled if pk in ids}
    return found
