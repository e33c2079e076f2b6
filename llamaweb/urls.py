"""Addresses. The browser app takes what nothing else claims, so it stands last."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, reverse_lazy
from django.views.generic import RedirectView

from llamaweb.admin_site import load_admin
from llamaweb.api import (
    anthropic_api,
    app_api,
    app_not_found,
    family_urls,
    native_api,
    not_found,
    ollama_api,
    ollama_not_found,
    openai_api,
    vertex_urls,
    without_v1,
)
from llamaweb.api_errors import ANTHROPIC, APP, OLLAMA
from llamaweb.reference.views import docs, openapi_json

load_admin()  # its addresses are made of what is registered

urlpatterns = [
    *vertex_urls(settings.VERTEX_ROUTES),
    path(
        "admin/password_change/",
        RedirectView.as_view(url=reverse_lazy("account_change_password")),
    ),
    path("admin/", admin.site.urls),
    path("", include("llamaweb.accounts.urls")),
    path("", include("inference.edge.urls")),
    path("api/app/", family_urls(app_api, APP)),
    path("api/app/<path:_rest>", app_not_found),
    path("api/docs", docs),
    path("api/openapi.json", openapi_json),
    path("api/", family_urls(ollama_api, OLLAMA)),
    path("api/<path:_rest>", ollama_not_found),
    path("api/", ollama_not_found),
    path("v1/", not_found),
    path("v1/", family_urls(anthropic_api, ANTHROPIC)),
    path("v1/", family_urls(openai_api)),
    path("v1/<path:_rest>", not_found),
    path("v1", not_found),
    path("chat/completions", without_v1),
    path("chat/completions/input_tokens", without_v1),
    path("audio/transcriptions", without_v1),
    path("responses", without_v1),
    path("responses/input_tokens", without_v1),
    path("lora-adapters", without_v1),
    path("models", without_v1),
    path("models/<path:name>", without_v1),
    path("", family_urls(native_api)),
    path("", include("frontend.urls")),
]

handler400 = "llamaweb.api.bad_request"
handler404 = "llamaweb.api.page_not_found"
handler500 = "llamaweb.api.server_error"
