"""The page that carries the browser app."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe
from django_vite.core.exceptions import DjangoViteAssetNotFoundError, DjangoViteManifestError

NOT_BUILT = "The browser app is not built yet: run make install.\n"


@require_safe
@ensure_csrf_cookie
def shell(request: HttpRequest) -> HttpResponse:
    """The shell; the app in it draws everything else. 503 while it isn't built."""
    try:
        return render(request, "frontend/shell.html")
    except (DjangoViteManifestError, DjangoViteAssetNotFoundError):
        return HttpResponse(NOT_BUILT, status=503, content_type="text/plain; charset=utf-8")
