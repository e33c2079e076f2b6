"""What callers see of a model and who may use it; none of it touches a running engine."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.utils.translation import gettext_lazy as _


class ModelUse(models.Model):
    """The part of a `ModelConfig` that is about its callers.

    `aliases`: other names, unique among all names and aliases. `tags`: words for people. Where
    `is_restricted`, it is for `users` and the members of `groups` alone. `sampling`: defaults by
    llama-server's names, see `inference.registry.sampling`. `system_prompt`, `thinking`,
    `reasoning_effort` and `template_kwargs`: for chats that don't say otherwise, see
    `inference.registry.chat_defaults`.
    """

    class Thinking(models.TextChoices):
        AUTO = "auto", _("as the model does")
        ON = "on", _("on")
        OFF = "off", _("off")

    aliases = models.JSONField(_("other names"), default=list, blank=True)
    tags = models.JSONField(_("tags"), default=list, blank=True)
    sampling = models.JSONField(
        _("sampling"),
        default=dict,
        blank=True,
        help_text=_('for requests that don\'t say otherwise, such as {"temperature": 0.6}'),
    )
    system_prompt = models.TextField(
        _("system prompt"), blank=True, help_text=_("for chats without a system message")
    )
    thinking = models.CharField(
        _("thinking"),
        max_length=4,
        choices=Thinking.choices,
        default=Thinking.AUTO,
        help_text=_("before an answer, where the chat template can switch it"),
    )
    reasoning_effort = models.CharField(
        _("reasoning effort"),
        max_length=32,
        blank=True,
        help_text=_("such as low, medium or high, where the chat template reads it"),
    )
    template_kwargs = models.JSONField(
        _("template variables"),
        default=dict,
        blank=True,
        help_text=_('for the chat template, such as {"preserve_thinking": true}'),
    )
    is_restricted = models.BooleanField(
        _("restricted"),
        default=False,
        help_text=_("only the people and groups below may use it, and administrators of all"),
    )
    users = models.ManyToManyField(
        settings.AUTH_USER_MODEL, blank=True, related_name="+", verbose_name=_("people")
    )
    groups = models.ManyToManyField(Group, blank=True, related_name="+", verbose_name=_("groups"))

    class Meta:
        abstract = True
