"""Uploading a model file: a page whose script sends the file piece by piece."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from inference.admin.add_ways import add_ways, may_upload
from inference.models import ModelFile
from inference.registry.uploads import piece_bytes, upload_start, upload_write
from llamaweb.accounts.admin_base import who
from llamaweb.lib.errors import LlamawebError, NotFoundError

NO_STORE = {"Cache-Control": "no-store"}


class StartForm(forms.Form):
    """What the script says of a file."""

    file_name = forms.CharField(max_length=255, strip=False)
    size = forms.IntegerField(min_value=0, max_value=2**62)
    name = forms.CharField(max_length=128)
    sha256 = forms.CharField(max_length=64, required=False)
    load = forms.BooleanField(required=False)


class PieceForm(forms.Form):
    """A piece and where it begins."""

    offset = forms.IntegerField(min_value=0, max_value=2**62)
    piece = forms.FileField()


def upload_urls(site: AdminSite) -> list[URLPattern]:
    """What to mount below the model files."""

    def page(request: HttpRequest) -> HttpResponse:
        return upload_page(request, site)

    return [
        path("upload/", site.admin_view(require_safe(page)), name="inference_modelfile_upload"),
        path("upload/start/", site.admin_view(start_view), name="inference_modelfile_upload_start"),
        path("upload/<int:pk>/", site.admin_view(piece_view), name="inference_modelfile_piece"),
    ]


def upload_page(request: HttpRequest, site: AdminSite) -> HttpResponse:
    """The form."""
    if not may_upload(request):
        raise PermissionDenied
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Upload a model"),
        "start_url": reverse(f"{site.name}:inference_modelfile_upload_start"),
        "piece_url": reverse(f"{site.name}:inference_modelfile_piece", args=[0]),
        "ways": add_ways(request, site, but="upload"),
        "files_url": reverse(f"{site.name}:inference_modelfile_changelist"),
        "words": {"lost": _("The connection is lost; trying again."), "failed": _("It failed.")},
    }
    return TemplateResponse(request, "llamaweb/admin/upload.html", context)


@require_POST
def start_view(request: HttpRequest) -> JsonResponse:
    """See `upload_start`."""
    if not may_upload(request):
        raise PermissionDenied
    form = StartForm(request.POST)
    if not form.is_valid():
        return _error(" ".join(f"{name}: {errors[0]}" for name, errors in form.errors.items()))
    try:
        return _state(upload_start(**form.cleaned_data, **who(request)))
    except LlamawebError as error:
        return _refused(error)


@require_POST
def piece_view(request: HttpRequest, pk: int) -> JsonResponse:
    """See `upload_write`; a piece is a part of a form, and bounded by LLAMAWEB_MAX_BODY_BYTES."""
    if not may_upload(request):
        raise PermissionDenied
    form = PieceForm(request.POST, request.FILES)
    if not form.is_valid():
        return _error(_("This is no piece of a file."))
    offset, piece = form.cleaned_data["offset"], form.cleaned_data["piece"]
    if piece.size > piece_bytes():
        return _error(_("The piece is too large."))
    try:
        actor = who(request)["actor"]
        return _state(upload_write(file_id=pk, offset=offset, data=piece.read(), actor=actor))
    except LlamawebError as error:
        return _refused(error)


def _state(file: ModelFile) -> JsonResponse:
    is_open = file.state == ModelFile.State.UPLOADING
    state = {"id": file.pk, "done": file.bytes_done, "piece": piece_bytes(), "is_open": is_open}
    return JsonResponse(state, headers=NO_STORE)


def _refused(error: LlamawebError) -> JsonResponse:
    if isinstance(error, NotFoundError):
        return _error(error.message, 404)
    return _error(error.message, 503 if error.retryable else 400)


def _error(message: str, status: int = 400) -> JsonResponse:
    return JsonResponse({"error": message}, status=status, headers=NO_STORE)
