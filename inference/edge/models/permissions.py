"""Whether a caller may administer models: a key for that, of somebody who may in the admin."""

from __future__ import annotations

from typing import Literal, TypeAlias

from inference.models import ModelConfig, ModelFile
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.models import Scope, User
from llamaweb.lib.errors import ForbiddenError

Permission: TypeAlias = Literal["add", "change", "delete"]
REFUSED = "this API key's owner may not administer models"
ADMINISTERS = frozenset({Scope.MODELS_WRITE.value, Scope.ADMIN.value})


def administrator(
    caller: Caller, permission: Permission, model: type[ModelConfig | ModelFile] = ModelConfig
) -> User:
    """The owner of the caller's key.

    Raises:
        ForbiddenError: the key has none of the scopes `ADMINISTERS`, or is for certain models only,
            or its owner lacks the permission.
    """
    if not caller.scopes & ADMINISTERS:
        raise ForbiddenError(f"this API key lacks the scope {Scope.MODELS_WRITE.value!r}")
    if caller.model_names:
        raise ForbiddenError("this API key is for certain models only, and administers none")
    user = User.objects.filter(pk=caller.user_id, is_active=True, is_staff=True).first()
    full = f"{model._meta.app_label}.{permission}_{model._meta.model_name}"
    if user is None or not user.has_perm(full):
        raise ForbiddenError(REFUSED)
    return user


def is_administrator(caller: Caller, permission: Permission) -> bool:
    """As `administrator`, where nothing is refused."""
    try:
        administrator(caller, permission)
    except ForbiddenError:
        return False
    return True
