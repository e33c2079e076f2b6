"""Users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models, transaction
from django.db.models.functions import Lower
from django.dispatch import Signal
from django.utils.translation import gettext_lazy as _

# Sent in the transaction that removes users, before anything goes; `user_ids`. What belongs to them
# is locked then, so that others who change it meanwhile wait and don't deadlock.
users_leave = Signal()


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


if TYPE_CHECKING:
    _UserManager = UserManager["User"]
else:
    _UserManager = UserManager


class Users(_UserManager):
    """Django's, but the command `createsuperuser` leaves an audit event."""

    use_in_migrations = False

    def create_superuser(self, *args: Any, **kwargs: Any) -> User:
        """Make an administrator and write it down."""
        from llamaweb.accounts.user_services import user_created  # stands above the models

        with transaction.atomic():
            user = super().create_superuser(*args, **kwargs)
            user_created(user=user)
        return user


class User(AbstractUser):
    """A person. The e-mail address is optional; whatever is given belongs to one user only."""

    email = models.EmailField("email address", blank=True)
    theme = models.CharField(
        _("theme"), max_length=8, choices=Theme.choices, default=Theme.SYSTEM.value
    )
    language = models.CharField(
        _("language"), max_length=8, choices=Language.choices, default="", blank=True
    )
    objects: ClassVar = Users()

    class Meta(AbstractUser.Meta):
        constraints: ClassVar = [
            models.UniqueConstraint(
                Lower("email"),
                condition=~models.Q(email=""),
                name="accounts_user_email_unique_if_given",
            )
        ]

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Remove the user with all that is theirs."""
        with transaction.atomic():
            users_leave.send(User, user_ids=[self.pk])
            return super().delete(*args, **kwargs)
