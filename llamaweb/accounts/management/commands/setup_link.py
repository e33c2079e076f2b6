"""`manage.py setup_link`: a new link for the first administrator, for servers without a console."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from llamaweb.accounts.setup_services import setup_link_create


class Command(BaseCommand):
    """Prints the link alone on standard output; nothing when there is an administrator."""

    help = (
        "Print a one-time link that makes the first administrator; the link before stops working."
    )

    requires_system_checks = []  # each start runs it; the checks would load every page

    def add_arguments(self, parser: CommandParser) -> None:
        """--quiet."""
        parser.add_argument("--quiet", action="store_true", help="say nothing but the link")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make and print."""
        link = setup_link_create()
        if link is not None:
            self.stdout.write(link)
        elif not options["quiet"]:
            self.stderr.write("There is an administrator already: sign in, or use createsuperuser.")
