"""What can be done to groups by an administrator; each act is written down in its transaction."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.auth.models import Group
from django.db import transaction

from llamaweb.accounts.models import AuditAction, User
from llamaweb.accounts.services import audit_record


def group_save(*, group: Group, actor: User | None = None, address: str | None = None) -> None:
    """Make or rename `group`; saving without a change leaves no event."""
    with transaction.atomic():
        is_new = group._state.adding
        before = "" if is_new else Group.objects.values_list("name", flat=True).get(pk=group.pk)
        group.save()
        if before != group.name:
            audit_record(
                action=AuditAction.GROUP_CREATED if is_new else AuditAction.GROUP_CHANGED,
                actor=actor,
                target=group,
                address=address,
                name=group.name,
                name_before=before,
            )


def group_permissions(group: Group) -> list[str]:
    """What a group may do, by name."""
    found = group.permissions.values_list("content_type__app_label", "codename")
    return sorted(f"{app}.{codename}" for app, codename in found)


def group_rights_changed(
    *,
    group: Group,
    before: list[str],
    actor: User | None = None,
    address: str | None = None,
) -> None:
    """Write down what a group may do now, if it isn't `before`; in the act's transaction."""
    after = group_permissions(group)
    if after != before:
        audit_record(
            action=AuditAction.GROUP_CHANGED,
            actor=actor,
            target=group,
            address=address,
            name=group.name,
            permissions=after,
        )


def groups_delete(
    *, groups: Sequence[Group], actor: User | None = None, address: str | None = None
) -> None:
    """Delete `groups`; their members lose what they had by them."""
    with transaction.atomic():
        for group in groups:
            audit_record(
                action=AuditAction.GROUP_DELETED,
                actor=actor,
                target=group,
                address=address,
                name=group.name,
                num_members=User.objects.filter(groups=group).count(),
            )
            group.delete()
