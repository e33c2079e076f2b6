"""`manage.py docs_settings`: write the generated tables into docs/."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from llamaweb.docs_tables import ROOT, TABLES, with_table


class Command(BaseCommand):
    """Rewrites docs/configuration.md and docs/metrics.md between their marks."""

    help = "Write the tables of settings and metrics into docs/."

    def handle(self, *args: Any, **options: Any) -> None:
        """Write what changed and name it."""
        for path, table in TABLES.items():
            old = path.read_text()
            new = with_table(old, table())
            if new != old:
                path.write_text(new)
                self.stdout.write(f"wrote {path.relative_to(ROOT)}")
