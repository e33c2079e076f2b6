"""The usage ledger: what was computed for whom. Numbers and names of models, nothing that anybody
wrote."""

from __future__ import annotations

from django.db import models


class UsageRecord(models.Model):
    """One generation, when it has ended. Plain values: a record outlives user, key and model, until
    its time is over.

    `key_id`: of the API key, 0 without one. `family`: the API that was called, "chat" for the
    browser. `end`: as `finish_reason` has it, or the code of a failure. Tokens that were cached are
    part of the prompt's.
    """

    generation_id = models.CharField(max_length=64, unique=True)
    user_id = models.BigIntegerField()
    key_id = models.BigIntegerField(default=0)
    model_name = models.CharField(max_length=128)
    family = models.CharField(max_length=32)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    end = models.CharField(max_length=32)
    at = models.DateTimeField(db_index=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["user_id", "at"], name="usage_of_user"),
            models.Index(fields=["key_id", "at"], name="usage_of_key"),
        ]

    def __str__(self) -> str:
        return self.generation_id
