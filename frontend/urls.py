"""Addresses of the browser app; the app itself knows the same ones (src/routes/path.ts)."""

from __future__ import annotations

from django.urls import path, re_path

from frontend.views import shell

app_name = "frontend"
urlpatterns = [
    path("", shell, name="shell"),
    re_path(r"^c/[A-Za-z0-9-]{1,40}$", shell, name="chat"),
    re_path(r"^settings(?:/(?:appearance|keys|account))?$", shell, name="settings"),
]
