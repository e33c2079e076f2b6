"""The ways to add a model, as links between their pages."""

from __future__ import annotations

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from inference.models import ModelConfig, ModelFile, Upstream
from llamaweb.accounts.admin_base import has_permission


def may_upload(request: HttpRequest) -> bool:
    """Whoever may add models and change their files."""
    may_add = has_permission(request, ModelConfig, "add")
    return may_add and has_permission(request, ModelFile, "change")


def add_ways(request: HttpRequest, site: AdminSite, *, but: str = "") -> list[dict[str, str]]:
    """Those that are open to the acting person, without the one whose page this is."""
    may_add = has_permission(request, ModelConfig, "add")
    ways = [
        ("hub", _("Search the hub"), "inference_modelconfig_hub", may_add),
        ("path", _("By path or address"), "inference_modelconfig_add", may_add),
        ("upload", _("Upload a model"), "inference_modelfile_upload", may_upload(request)),
        (
            "upstream",
            _("Add an upstream server"),
            "inference_upstream_add",
            has_permission(request, Upstream, "add"),
        ),
    ]
    return [
        {"label": label, "url": reverse(f"{site.name}:{view}")}
        for name, label, view, is_open in ways
        if is_open and name != but
    ]
