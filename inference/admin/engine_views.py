"""The live pages of engines, /admin/engines/ and one of each model; their numbers as JSON, and
their buttons."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from inference.admin.engine_details import engine_details
from inference.admin.engine_state import engines_state, state_words
from inference.admin.model_admin import ACTS
from inference.models import ModelConfig
from llamaweb.accounts.admin_base import has_permission
from llamaweb.lib.errors import LlamawebError

BUTTONS = ("load", "on_demand", "pin", "unpin", "restart", "drain", "unload")
NO_STORE = {"Cache-Control": "no-store"}


def engine_urls(site: AdminSite) -> list[URLPattern]:
    """What to mount below the administration."""

    def page(request: HttpRequest) -> HttpResponse:
        return engines_page(request, site)

    def one(request: HttpRequest, pk: int) -> HttpResponse:
        return engine_page(request, site, pk)

    return [
        path("engines/", site.admin_view(require_safe(page)), name="engines"),
        path("engines/state/", site.admin_view(state_view), name="engines_state"),
        path("engines/<int:pk>/", site.admin_view(require_safe(one)), name="engines_one"),
        path("engines/<int:pk>/state/", site.admin_view(details_view), name="engines_details"),
        path("engines/<int:pk>/<slug:act>/", site.admin_view(act_view), name="engines_act"),
    ]


def engines_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """The page; a script draws what `state_view` says."""
    _require(request, "view")
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Engines"),
        "words": words(),
        "may_act": has_permission(request, ModelConfig, "change"),
        "state_url": reverse(f"{site.name}:engines_state"),
        "act_url": reverse(f"{site.name}:engines_act", args=[0, "act"]),
        "one_url": reverse(f"{site.name}:engines_one", args=[0]),
    }
    return TemplateResponse(request, "llamaweb/admin/engines.html", context)


def engine_page(request: HttpRequest, site: AdminSite, pk: int) -> HttpResponse:
    """One model's page; a script draws what `details_view` says."""
    _require(request, "view")
    config = get_object_or_404(ModelConfig, pk=pk)
    may_act = has_permission(request, ModelConfig, "change")
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Engines"),
        "name": config.name,
        "words": words() | slot_words(),
        "acts": [act for act in ACTS if act.name in BUTTONS] if may_act else [],
        "state_url": reverse(f"{site.name}:engines_details", args=[pk]),
        "act_url": reverse(f"{site.name}:engines_act", args=[pk, "act"]),
        "engines_url": reverse(f"{site.name}:engines"),
        "config_url": reverse(f"{site.name}:inference_modelconfig_change", args=[pk]),
    }
    return TemplateResponse(request, "llamaweb/admin/engine.html", context)


@require_safe
def state_view(request: HttpRequest) -> JsonResponse:
    """See `engines_state`; a database that is away is said, too."""
    _require(request, "view")
    try:
        return JsonResponse(engines_state(), headers=NO_STORE)
    except DatabaseError:
        return JsonResponse(
            {"models": [], "error": _("The database can't be used.")}, headers=NO_STORE
        )


@require_safe
def details_view(request: HttpRequest, pk: int) -> JsonResponse:
    """See `engine_details`."""
    _require(request, "view")
    rows = ModelConfig.objects.select_related("file").defer("file__templates")
    rows = rows.prefetch_related("calibrations", "file__parts")
    try:
        config = rows.filter(pk=pk).first()
        if config is None:
            return JsonResponse({"error": _("There is no such model.")}, status=404)
        return JsonResponse(engine_details(config), headers=NO_STORE)
    except DatabaseError:
        answer = {"model": None, "error": _("The database can't be used.")}
        return JsonResponse(answer, headers=NO_STORE)


@require_POST
def act_view(request: HttpRequest, pk: int, act: str) -> JsonResponse:
    """Load, pin, restart, drain or unload a model."""
    _require(request, "change")
    config = ModelConfig.objects.filter(pk=pk).first()
    found = next((item for item in ACTS if item.name == act and act in BUTTONS), None)
    if config is None or found is None:
        return JsonResponse({"error": _("There is no such model.")}, status=404)
    try:
        return JsonResponse({"message": found.run(request, config)}, headers=NO_STORE)
    except LlamawebError as error:
        return JsonResponse({"error": error.message}, status=400)


def words() -> dict[str, str]:
    """What the script says in the reader's language."""
    return {
        **state_words(),
        "nobody_waits": _("Nobody waits."),
        "no_models": _("There is no model yet."),
        "more": _("and %s more"),
        "unreachable": _("The server can't be reached; trying again."),
        "signed_out": _("You are signed out, or may not see this any more."),
        "no_queue": _("The queue can't be read now:"),
    }


def slot_words() -> dict[str, str]:
    """What the page of one model says besides."""
    return {
        "free": _("free"),
        "waiting": _("waiting"),
        "prefill": _("prompt"),
        "decode": _("answer"),
        "entries": _("%s states"),
        "of": _("%1 of %2"),
        "tokens": _("%s tokens"),
        "in_slots": _("in slots"),
        "in_memory": _("in memory"),
        "computed": _("computed"),
        "gone": _("This model is gone."),
    }


def _require(request: HttpRequest, permission: str) -> None:
    allowed = has_permission(request, ModelConfig, permission)
    if permission == "view":
        allowed = allowed or has_permission(request, ModelConfig, "change")
    if not allowed:
        raise PermissionDenied
