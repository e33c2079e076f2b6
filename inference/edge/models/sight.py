"""What of the models somebody may be told who follows them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from inference import api
from inference.edge.models.permissions import is_administrator
from inference.registry.standing import active_users, living_keys
from llamaweb.accounts.caller import Caller

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
    active = active_users({caller.user_id for caller in callers})
    keys = living_keys({caller.key_id for caller in callers if caller.key_id is not None})
    valid = {None, *keys}
    return {c for c in callers if c.user_id in active and c.key_id in valid}
