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


def access_models(user_id: int) -> QuerySet[ModelConfig]:
    """The enabled models that a user may use; a superuser all, an inactive account none."""
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
    return ModelConfig.objects.filter(may, Exists(person), is_enabled=True)


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
