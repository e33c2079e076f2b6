"""Addresses of the browser app."""

from __future__ import annotations

from django.urls import path

from frontend.views import shell

app_name = "frontend"
urlpatterns = [path("", shell, name="shell")]
