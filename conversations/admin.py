"""Conversations in the administration: whose, when, how many; never what is in them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from conversations.models import Conversation
from conversations.services.administration import conversation_delete_by
from llamaweb.accounts.admin_base import ReadOnlyAdmin, has_permission, who


@admin.register(Conversation)
class ConversationAdmin(ReadOnlyAdmin):
    """A title can hold private text, so it isn't shown, searched or read."""

    list_display = (
        "id",
        "owner",
        "chosen_model",
        "num_messages",
        "num_shares",
        "created_at",
        "updated_at",
        "is_deleted",
    )
    list_select_related = ("owner",)
    list_filter = ("updated_at",)
    search_fields = ("id", "owner__username")
    ordering = ("-updated_at",)
    fields = list_display
    readonly_fields = ("chosen_model", "num_messages", "num_shares", "is_deleted")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With the counts, without the titles."""
        living = Q(messages__deleted_at=None)
        rows: QuerySet[Any] = super().get_queryset(request).defer("title")
        counted: QuerySet[Any] = rows.annotate(
            messages_counted=Count("messages", filter=living, distinct=True),
            shares_counted=Count("shares", distinct=True),
        )
        return counted

    @admin.display(description=_("model"), ordering="model_name")
    def chosen_model(self, row: Any) -> str:
        """The one chosen for it."""
        return str(row.model_name) or str(_("default"))

    @admin.display(description=_("messages"), ordering="messages_counted")
    def num_messages(self, row: Any) -> int:
        """Those that weren't deleted."""
        return int(row.messages_counted)

    @admin.display(description=_("shared with"), ordering="shares_counted")
    def num_shares(self, row: Any) -> int:
        """How many others may see it."""
        return int(row.shares_counted)

    @admin.display(description=_("deleted"), boolean=True, ordering="deleted_at")
    def is_deleted(self, row: Any) -> bool:
        """It can be restored for a day."""
        return row.deleted_at is not None

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """By the permission; once only."""
        is_gone = obj is not None and obj.deleted_at is not None
        return has_permission(request, Conversation, "delete") and not is_gone

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Nothing is shown of what goes along."""
        ids = [obj.pk for obj in objs]
        may = has_permission(request, Conversation, "delete")
        name = str(Conversation._meta.verbose_name)
        return ids, {name: len(ids)}, set() if may else {name}, []

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Through the service."""
        conversation_delete_by(conversation_id=obj.pk, **who(request))

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Through the service."""
        for conversation_id in list(queryset.values_list("pk", flat=True)):
            conversation_delete_by(conversation_id=conversation_id, **who(request))
