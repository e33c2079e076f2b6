"""Users, their API keys and what was done in their name."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models
from django.db.models.functions import Lower


class User(AbstractUser):
    """A person. The e-mail address is optional; whatever is given belongs to one user only."""

    email = models.EmailField("email address", blank=True)
    objects: ClassVar = UserManager()

    class Meta(AbstractUser.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                Lower("email"),
                condition=~models.Q(email=""),
                name="accounts_user_email_unique_if_given",
            )
        ]


class Scope(models.TextChoices):
    """What a key may be used for."""

    INFERENCE = "inference", "Inference"
    MODELS_READ = "models:read", "List models"
    ADMIN = "admin", "Administration"


class ApiKey(models.Model):
    """A key of a user. The key itself is shown once; `digest` is its HMAC under the server's key.

    `prefix` is the recognisable start, for people. `last_used_at` is exact to a minute.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        verbose_name = "API key"

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class AuditAction(models.TextChoices):
    """Every act that is written down."""

    API_KEY_CREATED = "api_key.created", "API key created"
    API_KEY_REVOKED = "api_key.revoked", "API key revoked"
    API_KEY_DELETED = "api_key.deleted", "API key deleted with its user"
    USER_CREATED = "user.created", "User created"
    USER_CHANGED = "user.changed", "User changed"
    USER_RIGHTS_CHANGED = "user.rights_changed", "User's groups or permissions changed"
    USER_PASSWORD_CHANGED = "user.password_changed", "User's password changed"
    USER_DELETED = "user.deleted", "User deleted"
    MODEL_CONFIG_SYNCED = "model_config.synced", "Model config brought in step with the environment"


class AppendOnlyError(Exception):
    """Somebody tried to change or delete an audit event."""


class _AuditQuerySet(models.QuerySet["AuditEvent"]):
    """Refuses what the database's triggers would refuse anyway, with a clearer message."""

    def update(self, **_kwargs: Any) -> NoReturn:
        raise AppendOnlyError("audit events are never changed")

    def bulk_update(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise AppendOnlyError("audit events are never changed")

    def delete(self) -> NoReturn:
        raise AppendOnlyError("audit events are never deleted")


class AuditEvent(models.Model):
    """One act, written in the transaction of the act. Append-only, in the database too.

    Actor and object are kept as plain values: the event outlives both. `detail` holds short
    values, never secrets or prompt text.
    """

    at = models.DateTimeField(db_index=True)
    action = models.CharField(max_length=64)  # an AuditAction
    actor_id = models.BigIntegerField(null=True, db_index=True)
    actor_name = models.CharField(max_length=150, blank=True)
    object_type = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    address = models.GenericIPAddressField(null=True)
    detail = models.JSONField(default=dict)

    objects = _AuditQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-id"]
        # _base_manager too: admin, refresh_from_db and cascades use it.
        base_manager_name = "objects"

    def __str__(self) -> str:
        return f"{self.action} {self.object_type} {self.object_id}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Insert; anything else is refused."""
        if not self._state.adding:
            raise AppendOnlyError("audit events are never changed")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused."""
        raise AppendOnlyError("audit events are never deleted")
