"""The page that carries the browser app."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_safe
from django_vite.core.exceptions import DjangoViteAssetNotFoundError, DjangoViteManifestError

from conversations.edge.me import me_state

NOT_BUILT = "The browser app is not built yet: run make install.\n"


@require_safe
@never_cache
@login_required
@ensure_csrf_cookie
async def shell(request: HttpRequest) -> HttpResponse:
    """The shell with what the app must know at its start, in the user's language and colours.

    The app draws everything else, a chat that isn't there included: the server gives no other
    answer for one that isn't yours. 503 while it isn't built.
    """
    user: Any = await request.auser()
    boot = await me_state(user)
    language = user.language or translation.get_language()
    context = {"boot": boot.model_dump(mode="json"), "theme": user.theme}
    try:
        with translation.override(language):
            return render(request, "frontend/shell.html", context)
    except (DjangoViteManifestError, DjangoViteAssetNotFoundError):
        return HttpResponse(NOT_BUILT, status=503, content_type="text/plain; charset=utf-8")
