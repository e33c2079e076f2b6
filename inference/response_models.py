"""Answers of the Responses API that their clients may come back to."""

from __future__ import annotations

from django.conf import settings
from django.db import models

RESPONSE_ID_LEN = 64


class StoredResponse(models.Model):
    """What is kept of a response beside its generation, which deletes it when it is deleted.

    `previous_id`: the response it goes on from, "" for none; `root_id`: the first of that chain,
    its own id without one. `items`: what was asked in this one, and `options`: what its object
    repeats of the request, both JSON. `log`: how its stream was cut, see
    `inference.registry.response_log`; None until it ended. `size`: characters of all that, of the
    request and the answer. `used_at`: when it was made or last gone on from.
    """

    id = models.CharField(primary_key=True, max_length=RESPONSE_ID_LEN)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="responses"
    )
    generation = models.OneToOneField(
        "inference.Generation", on_delete=models.CASCADE, related_name="response"
    )
    previous_id = models.CharField(max_length=RESPONSE_ID_LEN, blank=True)
    root_id = models.CharField(max_length=RESPONSE_ID_LEN, db_index=True)
    is_background = models.BooleanField(default=False)
    items = models.TextField()
    options = models.TextField()
    log = models.JSONField(null=True)
    size = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = "response"
        verbose_name_plural = "responses"
        indexes = [models.Index(fields=["owner", "used_at"], name="response_owner_used")]

    def __str__(self) -> str:
        return self.id
