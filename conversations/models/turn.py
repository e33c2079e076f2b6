"""Turns: from a person's message to its final answer."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from conversations.models.conversation import CLIENT_KEY_LEN, ID_LEN, Conversation
from conversations.models.message import ERROR_CODE_LEN, Message
from llamaweb.lib.ids import new_id

GENERATION_ID_LEN = 64


def turn_id() -> str:
    """A new random id."""
    return new_id("turn-")


class Turn(models.Model):
    """One answer in the making, or how it ended. States move as conversations.turns.machine says,
    by guarded updates only; an ended turn never moves again (Retry makes another one).

    `generation_id`: of the current round, the last one after the end. `cancel_pending`: its
    generation is to end and isn't known to have ended yet; `cancel_by` says why.
    `stop_requested_at`: a person stopped it. `client_key`: the client's own name for its request,
    so that sending it again finds this turn. `attempt`: 1, and one more with each Retry.
    """

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        WAITING_FOR_USER = "waiting_for_user"
        FINISHED = "finished"
        CANCELLED = "cancelled"
        FAILED = "failed"
        INTERRUPTED = "interrupted"

    id = models.CharField(primary_key=True, max_length=ID_LEN, default=turn_id)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="turns")
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="turns"
    )
    user_message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="turns_asked")
    answer = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="turns_answered")
    retry_of = models.ForeignKey(
        "self", null=True, blank=True, on_delete=models.SET_NULL, related_name="retries"
    )
    client_key = models.CharField(max_length=CLIENT_KEY_LEN, blank=True)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    revision = models.PositiveBigIntegerField()
    generation_id = models.CharField(max_length=GENERATION_ID_LEN, unique=True)
    num_rounds = models.PositiveIntegerField(default=1)
    attempt = models.PositiveIntegerField(default=1)
    cancel_pending = models.BooleanField(default=False)
    cancel_by = models.CharField(max_length=16, blank=True)
    stop_requested_at = models.DateTimeField(null=True, blank=True)
    error_code = models.CharField(max_length=ERROR_CODE_LEN, blank=True)
    heartbeat_at = models.DateTimeField(help_text="the last time something moved it")
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["conversation", "revision"], name="turn_by_revision"),
            models.Index(
                fields=["heartbeat_at"],
                condition=models.Q(state__in=["queued", "running", "waiting_for_user"]),
                name="turn_open",
            ),
            models.Index(
                fields=["heartbeat_at"],
                condition=models.Q(cancel_pending=True),
                name="turn_cancel_pending",
            ),
        ]
        constraints = [
            # One branch, one open turn: an answer is the tip of its branch while it is written.
            models.UniqueConstraint(
                fields=["answer"],
                condition=models.Q(state__in=["queued", "running", "waiting_for_user"]),
                name="one_open_turn_a_branch",
            ),
            models.UniqueConstraint(
                fields=["retry_of"],
                condition=models.Q(state__in=["queued", "running", "waiting_for_user"]),
                name="one_open_retry",
            ),
            models.UniqueConstraint(
                fields=["conversation", "started_by", "client_key"],
                condition=~models.Q(client_key=""),
                name="turn_client_key",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    state__in=["queued", "running", "waiting_for_user"], ended_at=None
                )
                | (
                    models.Q(ended_at__isnull=False)
                    & ~models.Q(state__in=["queued", "running", "waiting_for_user"])
                ),
                name="turn_ended_at",
            ),
        ]

    def __str__(self) -> str:
        return self.id

    @property
    def is_open(self) -> bool:
        """Whether it still goes on."""
        return self.state in OPEN_STATES


OPEN_STATES = (Turn.State.QUEUED, Turn.State.RUNNING, Turn.State.WAITING_FOR_USER)
