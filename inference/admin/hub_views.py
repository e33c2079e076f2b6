"""A model of the hub, step by step: search, choose a repository, choose a quantization, watch it
come. Plain forms; each step is an address of its own."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from inference.admin.add_ways import add_ways
from inference.admin.hub_lines import found_words, read_left, repo_rows
from inference.models import MODEL_NAME_LEN, ModelConfig, ModelFile
from inference.registry.config_services import free_name
from inference.registry.downloads import hub_download_start
from inference.registry.hub import HubRepo, hub_repo, is_reference
from inference.registry.hub_search import MAX_FOUND, MAX_QUERY_LEN, hub_search
from llamaweb.accounts.admin_base import has_permission, who
from llamaweb.lib.errors import InvalidError, LlamawebError

MAX_REPO_LEN = 200
MAX_PATH_LEN = 500
NAME_ENDINGS = ("-GGUF", "-gguf", ".gguf")


class StartForm(forms.Form):
    """What is chosen in a repository."""

    repo = forms.CharField(max_length=MAX_REPO_LEN)
    path = forms.CharField(
        max_length=MAX_PATH_LEN,
        error_messages={"required": gettext_lazy("Choose a quantization.")},
    )
    name = forms.CharField(max_length=MODEL_NAME_LEN)
    load = forms.BooleanField(required=False)

    @property
    def context_len(self) -> int:
        """Tokens a slot, as they were shown beside the chosen path; 0: the usual.

        Raises:
            InvalidError: no such number.
        """
        text = self.data.get(f"context_len:{self.cleaned_data['path']}", "0")
        try:
            length: int = ModelConfig._meta.get_field("context_len").clean(text, None)
        except forms.ValidationError as error:
            reason = " ".join(error.messages)
            raise InvalidError(f"context_len: {reason}", param="context_len") from error
        return length


def hub_urls(site: AdminSite) -> list[URLPattern]:
    """What to mount below the models."""

    def page(request: HttpRequest) -> HttpResponse:
        return hub_page(request, site)

    def start(request: HttpRequest) -> HttpResponse:
        return start_view(request, site)

    return [
        path("hub/", site.admin_view(require_safe(page)), name="inference_modelconfig_hub"),
        path(
            "hub/start/",
            site.admin_view(require_POST(start)),
            name="inference_modelconfig_hub_start",
        ),
    ]


def hub_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """What `q` finds, or what the repository `repo` offers."""
    _require(request)
    query = request.GET.get("q", "").strip()[: MAX_QUERY_LEN + 1]
    repo = request.GET.get("repo", "").strip()[:MAX_REPO_LEN]
    if not repo and is_reference(query):
        repo = query.partition(":")[0]
    context: dict[str, Any] = {"query": query}
    try:
        if repo:
            found = hub_repo(repo)
            if not found.choices:
                raise InvalidError(_("%(repo)s has no GGUF model.") % {"repo": found.name})
            context |= _repo_context(found, name=_name_for(found))
        elif query:
            context["found"] = [_found(repo, site) for repo in hub_search(query)]
    except LlamawebError as error:
        context["problem"] = _problem(error)
    return _page(request, site, context)


def start_view(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """Start the download of what was chosen; what is wrong is said beside the choice."""
    _require(request)
    form = StartForm(request.POST)
    repo: HubRepo | None = None
    context: dict[str, Any] = {"query": ""}
    try:
        found = hub_repo(request.POST.get("repo", "")[:MAX_REPO_LEN])
        repo = found if found.choices else None
        if form.is_valid():
            return _start(request, site, found, form)
        context["problem"] = " ".join(str(errors[0]) for errors in form.errors.values())
    except LlamawebError as error:
        context["problem"] = _problem(error)
    if repo is not None:
        context |= _repo_context(repo, name=request.POST.get("name", "")[:MODEL_NAME_LEN])
        for row in context["rows"]:
            if request.POST.get("path"):
                row["is_proposed"] = row["path"] == request.POST["path"]
        context["load"] = bool(request.POST.get("load"))
    return _page(request, site, context)


def _start(request: HttpRequest, site: AdminSite, repo: HubRepo, form: StartForm) -> HttpResponse:
    chosen = form.cleaned_data
    choice = next((c for c in repo.choices if c.path == chosen["path"]), None)
    if choice is None or choice.model is None:
        reason = choice.problem if choice is not None else _("it isn't there any more")
        raise InvalidError(f"{chosen['path']}: {reason}")
    file = hub_download_start(
        model=choice.model,
        name=chosen["name"].strip(),
        load=chosen["load"],
        context_len=form.context_len,
        **who(request),
    )
    messages.success(request, _("The download has started."))
    if has_permission(request, ModelFile, "view"):
        return redirect(f"{site.name}:inference_modelfile_change", file.pk)
    return redirect(f"{site.name}:inference_modelconfig_changelist")


def _page(request: HttpRequest, site: AdminSite, context: dict[str, Any]) -> HttpResponse:
    whole: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Add a model of the hub"),
        "hub_url": reverse(f"{site.name}:inference_modelconfig_hub"),
        "start_url": reverse(f"{site.name}:inference_modelconfig_hub_start"),
        "hub_name": settings.HUB_URL.partition("://")[2],
        "max_query_len": MAX_QUERY_LEN,
        "max_name_len": MODEL_NAME_LEN,
        "max_found": MAX_FOUND,
        "ways": add_ways(request, site, but="hub"),
        "load": True,
        **context,
    }
    return TemplateResponse(request, "llamaweb/admin/hub.html", whole)


def _repo_context(repo: HubRepo, *, name: str) -> dict[str, Any]:
    left = read_left()
    return {"repo": repo.name, "rows": repo_rows(repo, left), "name": name, "room": left.words}


def _found(repo: Any, site: AdminSite) -> dict[str, Any]:
    base = reverse(f"{site.name}:inference_modelconfig_hub")
    return {
        "name": repo.name,
        "url": f"{base}?{urlencode({'repo': repo.name})}",
        "about": " · ".join(found_words(repo)),
        "is_gated": repo.is_gated,
    }


def _name_for(repo: HubRepo) -> str:
    """A free name like the repository's."""
    name = repo.name.partition("/")[2]
    for ending in NAME_ENDINGS:
        name = name.removesuffix(ending)
    return free_name(name)


def _problem(error: LlamawebError) -> str:
    """The hub that can't be asked is named; what it refuses says so itself."""
    if isinstance(error, InvalidError):
        return error.message
    return _("The hub %(url)s can't be asked: %(reason)s") % {
        "url": settings.HUB_URL,
        "reason": error.message,
    }


def _require(request: HttpRequest) -> None:
    if not has_permission(request, ModelConfig, "add"):
        raise PermissionDenied
