"""For the account pages."""

from __future__ import annotations

from django import template
from django_vite.core.asset_loader import DjangoViteAssetLoader
from django_vite.core.exceptions import DjangoViteAssetNotFoundError, DjangoViteManifestError

STYLES = "src/styles/pages.css"

register = template.Library()


@register.simple_tag
def pages_css() -> str:
    """Address of the pages' style sheet; "" while the front end isn't built."""
    try:
        url: str = DjangoViteAssetLoader.instance().generate_vite_asset_url(STYLES)
    except (DjangoViteManifestError, DjangoViteAssetNotFoundError):
        return ""
    return url
