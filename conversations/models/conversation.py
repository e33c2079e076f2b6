"""Conversations and who may see them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from llamaweb.lib.ids import new_id

ID_LEN = 40
TITLE_LEN = 200
MODEL_NAME_LEN = 128
CLIENT_KEY_LEN = 64


def conversation_id() -> str:
    """A new random id."""
    return new_id("conv-")


class Conversation(models.Model):
    """A tree of messages that belongs to one person.

    `revision` rises by one with each change of anything in the conversation; the changed rows
    carry the number. It is given out under the lock of this row, which is held until the commit:
    whoever sees revision N sees every change up to N (docs/adr/0009). `last_number`: the number of
    the newest message. `client_key`: the client's own name for the request that made it, so that
    sending it again finds this conversation.
    """

    id = models.CharField(primary_key=True, max_length=ID_LEN, default=conversation_id)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        related_name="conversations",
        verbose_name=_("owner"),
    )
    title = models.CharField(max_length=TITLE_LEN, blank=True)
    title_is_custom = models.BooleanField(default=False)
    model_name = models.CharField(max_length=MODEL_NAME_LEN, blank=True, help_text='"": default')
    current_leaf = models.ForeignKey(
        "conversations.Message",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
    )
    client_key = models.CharField(max_length=CLIENT_KEY_LEN, blank=True)
    revision = models.PositiveBigIntegerField(default=1)
    last_number = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(_("created"))
    updated_at = models.DateTimeField(_("changed"), help_text="the last message or answer")
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        indexes = [
            models.Index(
                fields=["owner", "-updated_at", "-id"],
                condition=models.Q(deleted_at=None),
                name="conversation_by_date",
            ),
            models.Index(
                fields=["deleted_at"],
                condition=models.Q(deleted_at__isnull=False),
                name="conversation_deleted",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "client_key"],
                condition=~models.Q(client_key=""),
                name="conversation_client_key",
            )
        ]

    def __str__(self) -> str:
        return self.id


class Share(models.Model):
    """Somebody else who may read a conversation, or write in it too."""

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="shares")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="conversation_shares"
    )
    can_write = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "user"], name="share_once_a_user")
        ]

    def __str__(self) -> str:
        return f"{self.conversation_id} {self.user_id}"
