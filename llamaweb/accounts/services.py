"""What can be done to accounts. Each act and its audit event share one transaction."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from llamaweb.accounts import keys
from llamaweb.accounts.models import ApiKey, AuditAction, AuditEvent, Scope, User
from llamaweb.lib.errors import InvalidError

NAME_LEN = 100
MAX_KEYS_PER_USER = 100
MAX_KEY_LIFE = dt.timedelta(days=36_500)
MAX_KEY_MODELS = 100
MODEL_NAME_LEN = 128


def audit_record(
    *,
    action: AuditAction,
    actor: User | None,
    target: Any,
    address: str | None = None,
    **detail: str | int | float | bool | list[str] | None,
) -> AuditEvent:
    """Write down an act; call it inside the act's transaction. `target` None: of no one object.

    Raises:
        RuntimeError: outside a transaction, where act and record could part.
    """
    connection = transaction.get_connection()
    if not connection.in_atomic_block:
        raise RuntimeError("an audit event belongs into the transaction of its act")
    return AuditEvent.objects.create(
        at=timezone.now(),
        action=action,
        actor_id=actor.pk if actor else None,
        actor_name=actor.get_username() if actor else "",
        object_type="" if target is None else target._meta.label_lower,
        object_id="" if target is None else str(target.pk),
        address=address or None,
        detail=detail,
    )


def api_key_create(
    *,
    user: User,
    name: str,
    scopes: Sequence[str] = (Scope.INFERENCE,),
    model_names: Sequence[str] = (),
    expires_at: dt.datetime | None = None,
    actor: User | None = None,
    address: str | None = None,
) -> tuple[ApiKey, str]:
    """Make a key for `user`; returns the row and the key itself, which nobody can read again.

    `model_names`: the only models it may be used with, none for all that its owner may use. A name
    that no model has allows nothing, until one is called so.

    Raises:
        InvalidError: no or too long a name, unknown scope, too many models, expiry in the past or
            too far away, too many keys.
    """
    now = timezone.now()
    raw = keys.new_key()
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # two at once can't pass the bound
        _check(user, name, scopes, expires_at, now)
        _check_models(model_names)
        key = ApiKey.objects.create(
            user=user,
            name=name.strip(),
            prefix=keys.shown(raw),
            digest=keys.digest(raw, settings.API_KEY_HMAC_KEY),
            scopes=sorted({str(scope) for scope in scopes}),
            model_names=sorted(set(model_names)),
            created_at=now,
            expires_at=expires_at,
        )
        audit_record(
            action=AuditAction.API_KEY_CREATED,
            actor=actor,
            target=key,
            address=address,
            name=key.name,
            owner=user.get_username(),
            scopes=key.scopes,
            model_names=key.model_names,
        )
    return key, raw


def _check(
    user: User,
    name: str,
    scopes: Sequence[str],
    expires_at: dt.datetime | None,
    now: dt.datetime,
) -> None:
    if not 0 < len(name.strip()) <= NAME_LEN or not name.isprintable():
        message = f"the name must have 1 to {NAME_LEN} printable characters"
        raise InvalidError(message, param="name")
    unknown = [scope for scope in scopes if scope not in Scope.values]
    if unknown or not scopes:
        allowed = ", ".join(Scope.values)
        raise InvalidError(f"scopes must be some of: {allowed}", param="scopes")
    if expires_at is not None and not now < expires_at <= now + MAX_KEY_LIFE:
        message = f"the expiry must lie in the future, at most {MAX_KEY_LIFE.days} days away"
        raise InvalidError(message, param="expires_at")
    if user.api_keys.filter(revoked_at=None).count() >= MAX_KEYS_PER_USER:
        raise InvalidError(f"a user may have {MAX_KEYS_PER_USER} keys; revoke one first")


def _check_models(names: Sequence[str]) -> None:
    if len(names) > MAX_KEY_MODELS:
        message = f"has {len(names)} names, at most {MAX_KEY_MODELS} are allowed"
        raise InvalidError(message, param="models")
    for index, name in enumerate(names):
        if not 0 < len(name) <= MODEL_NAME_LEN or not name.isprintable():
            message = f"must be a model's name of 1 to {MODEL_NAME_LEN} printable characters"
            raise InvalidError(message, param=f"models[{index}]")


def api_key_revoke(*, key: ApiKey, actor: User | None = None, address: str | None = None) -> bool:
    """Make `key` worthless at once. False: it was revoked already."""
    with transaction.atomic():
        changed = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(
            revoked_at=timezone.now()
        )
        if changed:
            audit_record(
                action=AuditAction.API_KEY_REVOKED,
                actor=actor,
                target=key,
                address=address,
                name=key.name,
            )
    key.refresh_from_db()
    return bool(changed)
