"""Messages: the nodes of a conversation's tree."""

from __future__ import annotations

from django.db import models

from conversations.models.conversation import ID_LEN, MODEL_NAME_LEN, Conversation
from conversations.parts import Part, parts_from_json
from llamaweb.lib.ids import new_id

ERROR_CODE_LEN = 32


def message_id() -> str:
    """A new random id."""
    return new_id("msg-")


class Message(models.Model):
    """A message. Its parent and number never change (conversations.tree).

    `streaming`: its turn is open, the text so far is the generation's log; one guarded update
    ends it. A deleted message stays as an empty row, so that readers learn of it by its revision.
    """

    class Role(models.TextChoices):
        SYSTEM = "system"
        USER = "user"
        ASSISTANT = "assistant"

    class State(models.TextChoices):
        DONE = "done"
        STREAMING = "streaming"
        STOPPED = "stopped"
        FAILED = "failed"
        INTERRUPTED = "interrupted"

    id = models.CharField(primary_key=True, max_length=ID_LEN, default=message_id)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="messages"
    )
    parent = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.CASCADE, related_name="children"
    )
    number = models.PositiveIntegerField()
    role = models.CharField(max_length=9, choices=Role.choices)
    parts = models.JSONField(default=list, help_text="conversations.parts")
    state = models.CharField(max_length=11, choices=State.choices, default=State.DONE)
    revision = models.PositiveBigIntegerField()
    error_code = models.CharField(max_length=ERROR_CODE_LEN, blank=True)
    error_message = models.TextField(blank=True)
    model_name = models.CharField(max_length=MODEL_NAME_LEN, blank=True)
    finish_reason = models.CharField(max_length=32, blank=True)
    prompt_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    edited_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["conversation", "revision"], name="message_by_revision")]
        constraints = [
            models.UniqueConstraint(fields=["conversation", "number"], name="message_number"),
            models.CheckConstraint(
                condition=models.Q(role="assistant") | models.Q(state="done"),
                name="only_answers_stream",
            ),
            models.CheckConstraint(
                condition=models.Q(deleted_at=None) | ~models.Q(state="streaming"),
                name="deleted_is_not_streaming",
            ),
        ]

    def __str__(self) -> str:
        return self.id

    def typed_parts(self) -> tuple[Part, ...]:
        """The stored parts as values."""
        return parts_from_json(self.parts)
