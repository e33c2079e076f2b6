"""The administration as a Django app, in place of `django.contrib.admin`.

Its modules bring forms, widgets and an HTTP client, so only what serves addresses loads them
(`llamaweb.urls`), and the system checks, which look at every page's class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core import checks


class AdminConfig(SimpleAdminConfig):
    """Knows where the pages are, without loading them."""

    default_site = "llamaweb.admin_site.AdminSite"

    def ready(self) -> None:
        """Register Django's checks of the administration, ours in the place of one."""
        checks.register(check_dependencies, checks.Tags.admin)
        checks.register(_check_pages, checks.Tags.admin)


def _check_pages(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[Any]:
    """What Django checks of the pages, once they are there."""
    from llamaweb.admin_site import load_admin

    load_admin()
    return list(check_admin_app(app_configs, **kwargs))
