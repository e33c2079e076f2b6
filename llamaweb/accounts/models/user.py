"""Users."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _


class Theme(models.TextChoices):
    """Light, dark, or what the device says."""

    SYSTEM = "system", _("As the device")
    LIGHT = "light", _("Light")
    DARK = "dark", _("Dark")


class Language(models.TextChoices):
    """Languages of the interface; "": what the browser asks for."""

    BROWSER = "", _("As the browser")
    ENGLISH = "en", "English"
    GERMAN = "de", "Deutsch"


class User(AbstractUser):
    """A person. The e-mail address is optional; whatever is given belongs to one user only."""

    email = models.EmailField("email address", blank=True)
    theme = models.CharField(
        _("theme"), max_length=8, choices=Theme.choices, default=Theme.SYSTEM.value
    )
    language = models.CharField(
        _("language"), max_length=8, choices=Language.choices, default="", blank=True
    )
    objects: ClassVar = UserManager()

    class Meta(AbstractUser.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                Lower("email"),
                condition=~models.Q(email=""),
                name="accounts_user_email_unique_if_given",
            )
        ]
