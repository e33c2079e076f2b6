#!/usr/bin/env python
"""Django's command line."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run one command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "llamaweb.settings")
    # Checked here, because Django would show a traceback for some commands and hide it for others.
    from django.conf import settings
    from django.core.management import execute_from_command_line

    _ = settings.DEBUG
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
