"""`manage.py changepassword USER`: as Django's, written down, and the user's sessions end."""

from __future__ import annotations

import getpass
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from llamaweb.accounts.models import User
from llamaweb.accounts.password_services import password_set

MAX_TRIES = 3


class Command(BaseCommand):
    """Asks for the new password twice."""

    help = "Change a user's password; their sessions end."

    def add_arguments(self, parser: CommandParser) -> None:
        """USER."""
        parser.add_argument("username", nargs="?", default=getpass.getuser(), help="user name")

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask, check, change."""
        user = User.objects.filter(username=options["username"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['username']!r}")
        password_set(user=user, new=self._ask(user))
        self.stdout.write(f"The password of {user.username} is changed.")

    def _ask(self, user: User) -> str:
        for _ in range(MAX_TRIES):
            first, second = getpass.getpass("New password: "), getpass.getpass("Again: ")
            try:
                if first != second:
                    raise ValidationError("They differ.")
                validate_password(first, user)
            except ValidationError as error:
                self.stderr.write("\n".join(error.messages))
            else:
                return first
        raise CommandError(f"given up after {MAX_TRIES} tries")
