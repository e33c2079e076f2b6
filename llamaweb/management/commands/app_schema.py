"""`manage.py app_schema`: the OpenAPI document of the browser app's API."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser


class Command(BaseCommand):
    """Prints JSON, or writes the front end's types that are made from it."""

    help = "Print the OpenAPI document of the browser app's API."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        """`--write-types`."""
        parser.add_argument(
            "--write-types",
            action="store_true",
            help="write frontend/src/types/api.ts instead (needs the front end's tools)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Print or write."""
        from llamaweb.app_schema import TYPES_FILE, app_schema_text, types_text  # loads all routes

        if options["write_types"]:
            (settings.ROOT / TYPES_FILE).write_text(types_text())
            self.stdout.write(f"wrote {TYPES_FILE}")
        else:
            self.stdout.write(app_schema_text())
