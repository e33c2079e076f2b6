"""The page that carries the browser app."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe


@require_safe
@ensure_csrf_cookie
def shell(request: HttpRequest) -> HttpResponse:
    """The shell; the app in it draws everything else."""
    return render(request, "frontend/shell.html")
