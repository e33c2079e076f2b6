"""The audit log."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from django.db import models
from django.utils.translation import gettext_lazy as _


class AuditAction(models.TextChoices):
    """Every act that is written down."""

    API_KEY_CREATED = "api_key.created", _("API key created")
    API_KEY_REVOKED = "api_key.revoked", _("API key revoked")
    API_KEY_DELETED = "api_key.deleted", _("API key deleted with its user")
    USER_CREATED = "user.created", _("User created")
    USER_CHANGED = "user.changed", _("User changed")
    USER_RIGHTS_CHANGED = "user.rights_changed", _("User's groups or permissions changed")
    USER_PASSWORD_CHANGED = "user.password_changed", _("User's password changed")
    USER_DELETED = "user.deleted", _("User deleted")
    SESSIONS_ENDED = "user.sessions_ended", _("User's sessions ended")
    SECOND_FACTOR_ADDED = "user.second_factor_added", _("User's second factor added")
    SECOND_FACTOR_REMOVED = "user.second_factor_removed", _("User's second factor removed")
    SETUP_LINK_CREATED = "setup_link.created", _("Setup link created")
    SETUP_COMPLETED = "setup_link.used", _("First administrator created")
    SITE_SETTINGS_CHANGED = "site_settings.changed", _("Site settings changed")
    INVITE_CREATED = "invite.created", _("Invite created")
    INVITE_REVOKED = "invite.revoked", _("Invite revoked")
    INVITE_USED = "invite.used", _("Invite used")
    MODEL_CONFIG_SYNCED = (
        "model_config.synced",
        _("Model config brought in step with the environment"),
    )
    MODEL_CONFIG_ADDED = "model_config.added", _("Model added")
    MODEL_CONFIG_CHANGED = "model_config.changed", _("Model changed")
    MODEL_ACCESS_CHANGED = "model_config.access", _("Who may use a model changed")
    MODEL_CONFIG_DELETED = "model_config.deleted", _("Model deleted")
    MODEL_DEFAULT_SET = "model_config.default_set", _("Default model chosen")
    MODEL_LOADED = "model_config.load", _("Model loaded")
    MODEL_ON_DEMAND = "model_config.on_demand", _("Model loaded on demand")
    MODEL_PINNED = "model_config.pin", _("Model pinned")
    MODEL_UNPINNED = "model_config.unpin", _("Model no longer pinned")
    MODEL_RESTARTED = "model_config.restart", _("Model restarted")
    MODEL_DRAINED = "model_config.drain", _("Model drained")
    MODEL_UNLOADED = "model_config.unload", _("Model unloaded")
    MODEL_MEASURED = "model_config.measure", _("Model to be measured again")
    MODEL_DOWNLOAD_STARTED = "model_file.download_started", _("Download started")
    MODEL_DOWNLOAD_PAUSED = "model_file.download_paused", _("Download paused")
    MODEL_DOWNLOAD_RESUMED = "model_file.download_resumed", _("Download resumed")
    MODEL_DOWNLOAD_RETRIED = "model_file.download_retried", _("Download tried again")
    MODEL_DOWNLOAD_CANCELLED = "model_file.download_cancelled", _("Download cancelled")
    MODEL_DOWNLOAD_ENDED = "model_file.download_ended", _("Download ended")
    MODEL_UPLOAD_STARTED = "model_file.upload_started", _("Upload started")
    MODEL_UPLOAD_ENDED = "model_file.upload_ended", _("Upload ended")
    MODEL_FILES_SCANNED = "model_file.scanned", _("Models directory looked through")
    MODEL_FILE_DELETED = "model_file.deleted", _("Model file deleted")
    GROUP_CREATED = "group.created", _("Group created")
    GROUP_CHANGED = "group.changed", _("Group changed")
    GROUP_DELETED = "group.deleted", _("Group deleted")
    CONVERSATION_DELETED = "conversation.deleted", _("Conversation deleted by an administrator")


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

    at = models.DateTimeField(_("when"), db_index=True)
    action = models.CharField(max_length=64)  # an AuditAction
    actor_id = models.BigIntegerField(null=True, db_index=True)
    actor_name = models.CharField(max_length=150, blank=True)
    object_type = models.CharField(max_length=64)
    object_id = models.CharField(max_length=64)
    address = models.GenericIPAddressField(_("address"), null=True)
    detail = models.JSONField(default=dict)

    objects = _AuditQuerySet.as_manager()

    class Meta:
        ordering: ClassVar = ["-id"]
        verbose_name = _("audit event")
        verbose_name_plural = _("audit events")
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
