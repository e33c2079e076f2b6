"""What changed in a person's list of conversations."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from conversations.models.conversation import ID_LEN


class Feed(models.Model):
    """The counter of one person's list: it rises with each change of a conversation they may read.

    Whoever sees revision N sees every change up to N: it is given out under the lock of this row,
    held until the commit. `floor`: entries up to here may have been removed, so that readers who
    know less must begin anew.
    """

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        primary_key=True,
        on_delete=models.CASCADE,
        related_name="conversation_feed",
    )
    revision = models.PositiveBigIntegerField(default=0)
    floor = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.user_id} at {self.revision}"


class FeedEntry(models.Model):
    """The last change of one conversation, as one person's list counts. It stays when the
    conversation is deleted or not shared any more, until that is removed for good."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="conversation_entries"
    )
    conversation_id = models.CharField(max_length=ID_LEN)
    revision = models.PositiveBigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["conversation_id"], name="feed_by_conversation")]
        constraints = [
            models.UniqueConstraint(fields=["user", "conversation_id"], name="feed_entry_once"),
            models.UniqueConstraint(fields=["user", "revision"], name="feed_entry_revision"),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} {self.conversation_id} at {self.revision}"
