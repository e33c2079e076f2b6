"""Model files and downloads."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, JsonResponse
from django.template.defaultfilters import filesizeformat
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from inference.models import ModelFile
from inference.registry.downloads import model_download_cancel, model_download_retry
from inference.registry.files import model_file_delete
from llamaweb.accounts.admin_base import Act, ReadOnlyAdmin, display, has_permission, who
from llamaweb.lib.errors import LlamawebError

State = ModelFile.State
MAX_SHOWN = 100


def _cancel(request: HttpRequest, file: ModelFile) -> str:
    done = model_download_cancel(file=file, **who(request))
    return gettext("The download is cancelled.") if done else gettext("It had ended already.")


def _retry(request: HttpRequest, file: ModelFile) -> str:
    done = model_download_retry(file=file, **who(request))
    return gettext("The download goes on.") if done else gettext("There is nothing to do.")


@admin.register(ModelFile)
class ModelFileAdmin(ReadOnlyAdmin):
    """Files on this server and those on their way; new ones: "Add a model"."""

    list_display = ("name", "status", "progress", "architecture", "used_by", "created_at")
    list_filter = (("state", ChoicesDropdownFilter),)
    search_fields = ("path", "source_url", "config_name", "sha256")
    actions = ("cancel",)
    fields = (
        "name",
        "status_text",
        "progress",
        "error",
        "path",
        "source",
        "sha256",
        "architecture",
        "title",
        "context_len",
        "has_chat_template",
        "used_by",
        "is_owned",
        "created_by",
        "created_at",
    )
    readonly_fields = ("name", "status_text", "progress", "source", "used_by")
    acts = (
        Act("cancel", _("Cancel"), _cancel, is_open=lambda file: file.is_open, is_dangerous=True),
        Act(
            "retry",
            _("Try again"),
            _retry,
            is_open=lambda file: file.is_owned and file.state in (State.FAILED, State.CANCELLED),
        ),
    )

    class Media:
        js = ("llamaweb/downloads.js",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With the models that use them."""
        return super().get_queryset(request).prefetch_related("configs")

    def get_urls(self) -> list[URLPattern]:
        """One more address: how far the downloads are."""
        view = self.admin_site.admin_view(self.progress_view)
        return [path("progress/", view, name="inference_modelfile_progress"), *super().get_urls()]

    def progress_view(self, request: HttpRequest) -> JsonResponse:
        """The newest files' states and progress, for the script of the list."""
        if not self.has_view_permission(request):
            return JsonResponse({"error": gettext("You may not see this.")}, status=403)
        files = ModelFile.objects.exclude(source_url="")[:MAX_SHOWN]
        rows = [
            {
                "id": file.pk,
                "is_open": file.is_open,
                "state": str(State(file.state).label),
                "percent": percent(file),
                "text": amount(file),
                "error": file.error,
            }
            for file in files
        ]
        return JsonResponse({"files": rows}, headers={"Cache-Control": "no-store"})

    @display(description=_("file"))
    def name(self, file: ModelFile) -> str:
        """The last part of its path or address."""
        return str(file)

    @display(
        description=_("state"),
        ordering="state",
        label={
            State.READY.value: "success",
            State.DOWNLOADING.value: "info",
            State.FAILED.value: "danger",
        },
    )
    def status(self, file: ModelFile) -> tuple[str, str]:
        """In words."""
        return file.state, str(State(file.state).label)

    @display(description=_("state"))
    def status_text(self, file: ModelFile) -> str:
        """As in the list."""
        return self.status(file)[1]

    @display(description=_("size"))
    def progress(self, file: ModelFile) -> str:
        """A bar while it comes, the size once it is there."""
        if not file.source_url or file.state == State.READY:
            return amount(file)
        return format_html(
            '<span class="lw-progress" data-download="{}"{}><progress max="100" value="{}" '
            'aria-label="{}"></progress><span data-text>{}</span>'
            "<small data-error>{}</small></span>",
            file.pk,
            mark_safe(" data-open") if file.is_open else "",
            percent(file),
            gettext("progress"),
            amount(file),
            file.error,
        )

    @display(description=_("source"))
    def source(self, file: ModelFile) -> str:
        """Where it came from, without what may be a secret."""
        return file.source_url.partition("?")[0]

    @display(description=_("used by"))
    def used_by(self, file: ModelFile) -> str:
        """Models made of it."""
        return ", ".join(config.name for config in file.configs.all())

    @admin.action(description=_("Cancel the chosen downloads"), permissions=["cancel"])
    def cancel(self, request: HttpRequest, queryset: Any) -> None:
        """Those that are still on their way."""
        self.run_on(
            request, queryset, lambda file: model_download_cancel(file=file, **who(request))
        )

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        """Whoever may change model files."""
        return has_permission(request, ModelFile, "change")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not while it comes or is used."""
        if obj is not None and (obj.is_open or obj.configs.exists()):
            return False
        return has_permission(request, ModelFile, "delete")

    def delete_model(self, request: HttpRequest, obj: ModelFile) -> None:
        """Through the service."""
        self.delete_queryset(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Through the service, which says why one can't go."""
        for file in queryset:
            try:
                model_file_delete(file=file, **who(request))
            except LlamawebError as error:
                messages.error(request, error.message)


def percent(file: ModelFile) -> int:
    """How much of it is there."""
    if file.state == State.READY:
        return 100
    return min(99, file.bytes_done * 100 // file.size) if file.size else 0


def amount(file: ModelFile) -> str:
    """How much of how much, for people."""
    if file.state == State.READY or file.size is None:
        return filesizeformat(file.size if file.size is not None else file.bytes_done)
    return f"{filesizeformat(file.bytes_done)} / {filesizeformat(file.size)}"
