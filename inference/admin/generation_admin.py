"""Generations: what was asked of whom and when, never what was said."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from inference.models import Generation
from llamaweb.accounts.admin_base import ReadOnlyAdmin


@admin.register(Generation)
class GenerationAdmin(ReadOnlyAdmin):
    """Metadata only: prompt and answer aren't even read from the database."""

    list_display = (
        "id",
        "owner",
        "model_name",
        "state",
        "prompt_tokens",
        "completion_tokens",
        "created_at",
        "ended_at",
    )
    list_select_related = ("owner",)
    list_filter = (("state", ChoicesDropdownFilter), "created_at")
    search_fields = ("id", "owner__username", "model_name")
    ordering = ("-created_at",)
    fields = (
        "id",
        "owner",
        "model_name",
        "state",
        "finish_reason",
        "error_code",
        "prompt_tokens",
        "cached_tokens",
        "completion_tokens",
        "created_at",
        "ended_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without the texts."""
        return super().get_queryset(request).defer("request", "parts", "error_message")
