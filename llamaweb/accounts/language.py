"""The language a person chose, kept in the browser, where Django looks for it."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpResponse


def language_remember(response: HttpResponse, language: str) -> None:
    """Set the cookie that LocaleMiddleware reads; "": as the browser asks."""
    if not language:
        response.delete_cookie(settings.LANGUAGE_COOKIE_NAME)
        return
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        language,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        httponly=settings.LANGUAGE_COOKIE_HTTPONLY,
        samesite="Lax",
    )
