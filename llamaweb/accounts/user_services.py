"""What can be done to users by an administrator; each act is written down in its transaction.

Of a password only that it was changed is written, of personal fields only their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import transaction

from llamaweb.accounts.models import AuditAction, User, users_leave
from llamaweb.accounts.services import audit_record
from llamaweb.accounts.session_services import sessions_end

# Everything of a user that a form may change, but for the password.
FIELDS = (
    "username",
    "first_name",
    "last_name",
    "email",
    "is_active",
    "is_staff",
    "is_superuser",
    "last_login",
    "date_joined",
)


def user_save(*, user: User, actor: User | None = None, address: str | None = None) -> None:
    """Make or change `user`; saving without a change leaves no event. Who may not come in any more
    is out everywhere at once."""
    with transaction.atomic():
        is_new = user._state.adding
        before = {} if is_new else User.objects.values(*FIELDS, "password").get(pk=user.pk)
        user.save()
        changed = [name for name in FIELDS if not is_new and before[name] != getattr(user, name)]
        if not is_new and before["password"] != user.password:
            user_password_changed(user=user, actor=actor, address=address)
        if is_new:
            user_created(user=user, actor=actor, address=address)
        elif changed:
            _record(AuditAction.USER_CHANGED, user, changed, actor=actor, address=address)
        if "is_active" in changed and not user.is_active:
            sessions_end(user=user, keep=None, actor=actor, address=address)


def user_created(*, user: User, actor: User | None = None, address: str | None = None) -> None:
    """Write down that `user` was made; in the act's transaction."""
    _record(AuditAction.USER_CREATED, user, [], actor=actor, address=address)


def _record(
    action: AuditAction,
    user: User,
    changed: list[str],
    *,
    actor: User | None,
    address: str | None,
) -> None:
    audit_record(
        action=action,
        actor=actor,
        target=user,
        address=address,
        username=user.get_username(),
        changed=changed,
        is_active=user.is_active,
        is_staff=user.is_staff,
        is_superuser=user.is_superuser,
    )


def user_rights(user: User) -> dict[str, list[str]]:
    """The groups and the permissions given to `user`, by name."""
    permissions = user.user_permissions.values_list("content_type__app_label", "codename")
    return {
        "groups": sorted(user.groups.values_list("name", flat=True)),
        "permissions": sorted(f"{app}.{codename}" for app, codename in permissions),
    }


def user_rights_changed(
    *,
    user: User,
    before: dict[str, list[str]],
    actor: User | None = None,
    address: str | None = None,
) -> None:
    """Write down what `user_rights` are now, if they aren't `before`; in the act's transaction."""
    after = user_rights(user)
    if after != before:
        audit_record(
            action=AuditAction.USER_RIGHTS_CHANGED,
            actor=actor,
            target=user,
            address=address,
            username=user.get_username(),
            **after,
        )


def user_password_changed(
    *, user: User, actor: User | None = None, address: str | None = None
) -> None:
    """Write down that the password was changed; in the act's transaction."""
    audit_record(
        action=AuditAction.USER_PASSWORD_CHANGED,
        actor=actor,
        target=user,
        address=address,
        username=user.get_username(),
        is_usable=user.has_usable_password(),
    )


def users_delete(
    *, users: Sequence[User], actor: User | None = None, address: str | None = None
) -> None:
    """Delete `users` with all that is theirs; each key is written down, too."""
    who: dict[str, Any] = {"actor": actor, "address": address}
    with transaction.atomic():
        users_leave.send(User, user_ids=[user.pk for user in users])  # all locks before any removal
        for user in users:
            for key in user.api_keys.all():
                audit_record(
                    action=AuditAction.API_KEY_DELETED,
                    target=key,
                    name=key.name,
                    owner=user.get_username(),
                    **who,
                )
            audit_record(
                action=AuditAction.USER_DELETED, target=user, username=user.get_username(), **who
            )
            user.delete()


def preferences_set(*, user: User, theme: str | None = None, language: str | None = None) -> User:
    """How the app looks for `user`; None: leave it."""
    wanted = {"theme": theme, "language": language}
    changed = {name: value for name, value in wanted.items() if value is not None}
    for name, value in changed.items():
        setattr(user, name, value)
    if changed:
        User.objects.filter(pk=user.pk).update(**changed)
    return user
