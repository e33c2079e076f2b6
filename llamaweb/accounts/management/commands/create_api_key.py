"""`manage.py create_api_key USER --name N`: make a key from the command line."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from llamaweb.accounts.models import Scope, User
from llamaweb.accounts.services import MAX_KEY_LIFE, api_key_create
from llamaweb.lib.errors import InvalidError

MAX_DAYS = MAX_KEY_LIFE.days


class Command(BaseCommand):
    """Prints the key alone on the last line of standard output, this once."""

    help = "Make an API key for a user and print it; it can't be shown again."

    def add_arguments(self, parser: CommandParser) -> None:
        """USER, --name, --scope and --model (repeatable), --expires."""
        parser.add_argument("user", help="user name")
        parser.add_argument("--name", required=True, help="what the key is for")
        parser.add_argument("--scope", action="append", choices=Scope.values, dest="scopes")
        parser.add_argument(
            "--model", action="append", dest="models", help="a model it may be used with; none: all"
        )
        parser.add_argument("--expires", type=int, metavar="DAYS", help="days until it expires")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make and print."""
        user = User.objects.filter(username=options["user"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}")
        days = options["expires"]
        if days is not None and not 1 <= days <= MAX_DAYS:
            raise CommandError(f"--expires: allowed is 1 to {MAX_DAYS} days")
        try:
            expires_at = None if days is None else timezone.now() + dt.timedelta(days=days)
            key, raw = api_key_create(
                user=user,
                name=options["name"],
                scopes=tuple(options["scopes"] or (Scope.INFERENCE,)),
                model_names=tuple(options["models"] or ()),
                expires_at=expires_at,
            )
        except InvalidError as error:
            raise CommandError(str(error)) from error
        self.stderr.write(f"Key {key.name!r} of {user.username}. Keep it: it isn't shown again.")
        self.stdout.write(raw)
