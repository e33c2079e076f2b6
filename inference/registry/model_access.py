"""Who may use which model. A model that one may not use doesn't exist for them."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from inference.models import ModelConfig
from llamaweb.accounts.models import AuditAction
from llamaweb.accounts.services import audit_record

if TYPE_CHECKING:
    from django.contrib.auth.models import Group

    from llamaweb.accounts.models import User

MAX_NAMES_WRITTEN = 50  # of each kind, in an audit event


def access_models(user_id: int, only: Collection[str] = ()) -> QuerySet[ModelConfig]:
    """The enabled models that a user may use; a superuser all, an inactive account none. `only`:
    those that the key is for by which they ask, none for all."""
    person = get_user_model().objects.filter(pk=user_id, is_active=True)
    by_name = ModelConfig.users.through.objects.filter(
        modelconfig_id=OuterRef("pk"), user_id=user_id
    )
    by_group = ModelConfig.groups.through.objects.filter(
        modelconfig_id=OuterRef("pk"), group__user=user_id
    )
    may = (
        Q(is_restricted=False)
        | Exists(by_name)
        | Exists(by_group)
        | Exists(person.filter(is_superuser=True))
    )
    found = ModelConfig.objects.filter(may, Exists(person), is_enabled=True)
    return found.filter(name__in=only) if only else found


def access_model_ids(user_ids: Collection[int]) -> dict[int, set[int]]:
    """Ids of what `access_models` has for each of these users, in as many queries for all of them
    as for one."""
    users = get_user_model().objects.filter(pk__in=user_ids, is_active=True)
    is_superuser = dict(users.values_list("pk", "is_superuser"))
    enabled = dict(ModelConfig.objects.filter(is_enabled=True).values_list("pk", "is_restricted"))
    everybodys = {pk for pk, is_restricted in enabled.items() if not is_restricted}
    found: dict[int, set[int]] = {user_id: set() for user_id in user_ids}
    for user_id, may_all in is_superuser.items():
        found[user_id] |= enabled.keys() if may_all else everybodys
    by_name = ModelConfig.users.through.objects.filter(user_id__in=is_superuser)
    by_group = ModelConfig.groups.through.objects.filter(group__user__in=is_superuser)
    for user_id, config_id in (
        *by_name.values_list("user_id", "modelconfig_id"),
        *by_group.values_list("group__user", "modelconfig_id"),
    ):
        if config_id in enabled:
            found[user_id].add(config_id)
    return found


def model_access_set(
    *,
    config: ModelConfig,
    is_restricted: bool,
    users: Collection[User] = (),
    groups: Collection[Group] = (),
    actor: User | None = None,
    address: str | None = None,
) -> bool:
    """Say who may use a model, from the next request on. False: nothing changed."""
    with transaction.atomic():
        row = ModelConfig.objects.select_for_update().get(pk=config.pk)
        before = (row.is_restricted, set(row.users.all()), set(row.groups.all()))
        if before == (is_restricted, set(users), set(groups)):
            return False
        ModelConfig.objects.filter(pk=row.pk).update(is_restricted=is_restricted)
        row.users.set(users)
        row.groups.set(groups)
        audit_record(
            action=AuditAction.MODEL_ACCESS_CHANGED,
            actor=actor,
            target=row,
            address=address,
            name=row.name,
            is_restricted=is_restricted,
            users=sorted(user.get_username() for user in users)[:MAX_NAMES_WRITTEN],
            groups=sorted(group.name for group in groups)[:MAX_NAMES_WRITTEN],
        )
    return True
