"""API keys."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from llamaweb.accounts.models.user import User


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
