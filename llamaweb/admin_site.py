"""The administration: django-unfold's pages with our look, our policy and our navigation.

unfold draws its pages with Alpine.js, which evaluates expressions and sets style attributes. Its
pages alone are allowed that: docs/adr/0010-admin-csp.md.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from csp.constants import UNSAFE_EVAL
from csp.decorators import csp_update
from django.contrib import admin
from django.contrib.admin import AdminSite as DjangoAdminSite
from django.http import HttpRequest
from django.urls import URLPattern
from unfold.sites import UnfoldAdminSite

from llamaweb.accounts.second_factor import guard_admin

RELAXED = {"script-src": [UNSAFE_EVAL], "style-src-attr": ["'unsafe-inline'"]}


if TYPE_CHECKING:
    _Site = DjangoAdminSite
else:
    _Site = UnfoldAdminSite


class AdminSite(_Site):
    """All pages below /admin/."""

    index_template = "llamaweb/admin/index.html"
    enable_nav_sidebar = True

    def __init__(self, name: str = "admin") -> None:
        super().__init__(name)
        guard_admin(self)

    def admin_view(self, view: Any, cacheable: bool = False) -> Any:
        """Behind the login and the permission; with the relaxed policy."""
        return csp_update(RELAXED)(super().admin_view(view, cacheable))

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Colours stand in our own style sheet: unfold's way is a style element in the page."""
        return {**super().each_context(request), "colors": None}

    def extra_urls(self) -> list[URLPattern]:
        """Pages that belong to no model."""
        from inference.admin.engine_views import engine_urls

        return engine_urls(self)


@functools.cache
def load_admin() -> None:
    """Find every app's administration, then put ours in the place of some."""
    admin.autodiscover()
    from llamaweb.accounts.foreign_admin import replace_foreign_admin

    replace_foreign_admin()
