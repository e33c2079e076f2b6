"""How people get in: sign-up and its invites, and the link that makes the first administrator.

Of a token only its digest is kept; whoever reads the database can't use a link.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from llamaweb.accounts.models.user import User

ONLY_ID = 1
DIGEST_LEN = 64


class SignupMode(models.TextChoices):
    """Who may make an account for themselves."""

    CLOSED = "closed", _("Nobody")
    INVITE = "invite", _("Whoever has an invite")
    OPEN = "open", _("Everybody")


class SiteSettings(models.Model):
    """What an administrator decides for the whole instance; the only row has the id 1."""

    signup_mode = models.CharField(
        _("who may sign up"),
        max_length=8,
        choices=SignupMode.choices,
        default=SignupMode.CLOSED.value,
    )
    require_second_factor_for_staff = models.BooleanField(
        _("staff need a second factor"),
        default=False,
        help_text=_("Without one they can use the chat, but not the administration."),
    )

    class Meta:
        verbose_name = _("site settings")
        verbose_name_plural = _("site settings")
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=models.Q(pk=ONLY_ID), name="accounts_sitesettings_only_one"
            )
        ]

    def __str__(self) -> str:
        return str(_("Site settings"))


class Invite(models.Model):
    """Lets one person sign up, once, until `expires_at`."""

    digest = models.CharField(max_length=DIGEST_LEN, unique=True, editable=False)
    note = models.CharField(_("note"), max_length=200, blank=True)
    created_at = models.DateTimeField(_("created"))
    created_by = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        null=True,
        related_name="invites_created",
        verbose_name=_("created by"),
    )
    expires_at = models.DateTimeField(_("expires"))
    used_at = models.DateTimeField(_("used"), null=True, blank=True)
    used_by = models.ForeignKey(
        User,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="invites_used",
        verbose_name=_("used by"),
    )
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        ordering: ClassVar = ["-created_at", "-id"]
        verbose_name = _("invite")
        verbose_name_plural = _("invites")

    def __str__(self) -> str:
        return self.note or f"{self._meta.verbose_name} {self.pk}"


class SetupLink(models.Model):
    """Lets whoever runs the server make the first administrator, once, until `expires_at`."""

    digest = models.CharField(max_length=DIGEST_LEN, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"setup link {self.pk}"
