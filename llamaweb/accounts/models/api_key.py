"""API keys."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from llamaweb.accounts.models.user import User


class Scope(models.TextChoices):
    """What a key may be used for."""

    INFERENCE = "inference", "Inference"
    EMBEDDINGS = "embeddings", "Embeddings"
    MODELS_READ = "models:read", "List models"
    MODELS_WRITE = "models:write", "Administer models"
    TOOLS = "tools", "Tools"
    ADMIN = "admin", "Administration"


class ApiKey(models.Model):
    """A key of a user. The key itself is shown once; `digest` is its HMAC under the server's key.

    `prefix` is the recognisable start, for people. `last_used_at` is exact to a minute.
    `model_names`: the models it may be used with, empty for all that its owner may use.
    """

    user = models.ForeignKey(
        User, on_delete=models.CASCADE, related_name="api_keys", verbose_name=_("user")
    )
    name = models.CharField(_("name"), max_length=100)
    prefix = models.CharField(_("begins with"), max_length=16)
    digest = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(_("scopes"), default=list)
    model_names = models.JSONField(_("models"), default=list, blank=True)
    created_at = models.DateTimeField(_("created"))
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
