"""Model files and downloads."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from inference.admin.add_ways import may_upload
from inference.admin.file_facts import facts_html, parts_html, summary, templates_html
from inference.admin.upload_views import upload_urls
from inference.models import ModelFile
from inference.registry.config_services import model_config_of
from inference.registry.download_file import UPLOADED
from inference.registry.downloads import (
    OPEN,
    model_download_cancel,
    model_download_pause,
    model_download_resume,
    model_download_retry,
)
from inference.registry.files import model_file_delete
from inference.registry.scan import ScanResult, models_scan
from llamaweb.accounts.admin_base import Act, ReadOnlyAdmin, display, has_permission, who
from llamaweb.lib.errors import LlamawebError

State = ModelFile.State
MAX_SHOWN = 100


def _cancel(request: HttpRequest, file: ModelFile) -> str:
    done = model_download_cancel(file=file, **who(request))
    return gettext("The download is cancelled.") if done else gettext("It had ended already.")


def _serve(request: HttpRequest, file: ModelFile) -> str:
    made = model_config_of(file=file, **who(request))
    return gettext("%(name)s was added.") % {"name": made.name}


def can_serve(file: ModelFile) -> bool:
    """Whether a model can be made of it."""
    return file.role == ModelFile.Role.MODEL and file.state == State.READY


def can_retry(file: ModelFile) -> bool:
    """Whether a download ended without a model."""
    is_here = not file.source_url.startswith(UPLOADED) or file.bytes_done == file.size
    is_ours = file.is_owned and bool(file.source_url) and is_here
    return is_ours and file.state in (State.FAILED, State.CANCELLED)


def _scanned(found: ScanResult) -> str:
    said = ngettext("%(count)d model.", "%(count)d models.", found.num_models)
    lines = [said % {"count": found.num_models}]
    if found.num_new:
        lines.append(gettext("%(count)d new.") % {"count": found.num_new})
    if found.num_missing:
        lines.append(gettext("%(count)d missing.") % {"count": found.num_missing})
    lines += [
        gettext("Left out: %(name)s, %(reason)s.") % {"name": name, "reason": reason}
        for name, reason in found.skipped
    ]
    return " ".join(lines)


def _pause(request: HttpRequest, file: ModelFile) -> str:
    done = model_download_pause(file=file, **who(request))
    return gettext("The download is paused.") if done else gettext("It had ended already.")


def _resume(request: HttpRequest, file: ModelFile) -> str:
    done = model_download_resume(file=file, **who(request))
    return gettext("The download goes on.") if done else gettext("There is nothing to do.")


def _retry(request: HttpRequest, file: ModelFile) -> str:
    done = model_download_retry(file=file, **who(request))
    return gettext("The download goes on.") if done else gettext("There is nothing to do.")


@admin.register(ModelFile)
class ModelFileAdmin(ReadOnlyAdmin):
    """Files on this server and those on their way; new ones: "Add a model"."""

    list_display = ("name", "role", "status", "progress", "about", "used_by", "created_at")
    list_filter = (("state", ChoicesDropdownFilter), ("role", ChoicesDropdownFilter))
    list_before_template = "llamaweb/admin/scan.html"
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
        "role",
        "title",
        "facts_list",
        "parts_list",
        "template_list",
        "used_by",
        "is_owned",
        "created_by",
        "created_at",
    )
    readonly_fields = (
        "name",
        "status_text",
        "progress",
        "source",
        "facts_list",
        "parts_list",
        "template_list",
        "used_by",
    )
    acts = (
        Act("serve", _("Make a model of it"), _serve, is_open=can_serve),
        Act("pause", _("Pause"), _pause, is_open=lambda file: file.is_open),
        Act("resume", _("Resume"), _resume, is_open=lambda file: file.state == State.PAUSED),
        Act(
            "cancel",
            _("Cancel"),
            _cancel,
            is_open=lambda file: file.state in OPEN,
            is_dangerous=True,
        ),
        Act("retry", _("Try again"), _retry, is_open=can_retry),
    )

    class Media:
        js = ("llamaweb/downloads.js",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without the parts of models, and with the models that use them."""
        found = super().get_queryset(request).filter(main=None).defer("templates")
        return found.prefetch_related("configs", "parts")

    def get_urls(self) -> list[URLPattern]:
        """Two more addresses: how far the downloads are, and a look at the directory."""
        progress = self.admin_site.admin_view(self.progress_view)
        scan = self.admin_site.admin_view(self.scan_view)
        return [
            path("progress/", progress, name="inference_modelfile_progress"),
            path("scan/", scan, name="inference_modelfile_scan"),
            *upload_urls(self.admin_site),
            *super().get_urls(),
        ]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """With the buttons that look again and upload."""
        url = f"{self.admin_site.name}:inference_modelfile_scan"
        may = has_permission(request, ModelFile, "change")
        upload = f"{self.admin_site.name}:inference_modelfile_upload"
        context = {
            "scan_url": reverse(url) if may else "",
            "upload_url": reverse(upload) if may_upload(request) else "",
            **(extra_context or {}),
        }
        return super().changelist_view(request, context)

    def scan_view(self, request: HttpRequest) -> HttpResponse:
        """Look through the models directory."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not has_permission(request, ModelFile, "change"):
            raise PermissionDenied
        self.say(request, lambda: _scanned(models_scan(**who(request))))
        return redirect(f"{self.admin_site.name}:inference_modelfile_changelist")

    def progress_view(self, request: HttpRequest) -> JsonResponse:
        """The newest files' states and progress, for the script of the list."""
        if not self.has_view_permission(request):
            return JsonResponse({"error": gettext("You may not see this.")}, status=403)
        found = ModelFile.objects.filter(main=None).exclude(source_url="")
        files = found.defer("templates", "facts").prefetch_related("parts")[:MAX_SHOWN]
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

    @display(description=_("model"))
    def about(self, file: ModelFile) -> str:
        """Architecture, parameters, quantization."""
        return summary(file)

    @display(description=_("what it says of itself"))
    def facts_list(self, file: ModelFile) -> str:
        """Its header."""
        return facts_html(file)

    @display(description=_("its other files"))
    def parts_list(self, file: ModelFile) -> str:
        """Shards, and what lies beside it."""
        return parts_html(file)

    @display(description=_("chat template"))
    def template_list(self, file: ModelFile) -> str:
        """To be read."""
        return templates_html(file)

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
    """How much of it is there, of all its files."""
    if file.state == State.READY:
        return 100
    done, total = _sums(file)
    return min(99, done * 100 // total) if total else 0


def amount(file: ModelFile) -> str:
    """How much of how much, for people."""
    done, total = _sums(file)
    if file.path or file.size is None:
        return filesizeformat(total or done)
    return f"{filesizeformat(done)} / {filesizeformat(total)}"


def _sums(file: ModelFile) -> tuple[int, int]:
    """Bytes that are there, and bytes in all: of a download, with all that comes; else of the
    model itself, without what lies beside it."""
    parts = [p for p in file.parts.all() if p.role == ModelFile.Role.SHARD or not file.path]
    rows = [file, *parts]
    return sum(row.bytes_done for row in rows), sum(row.size or 0 for row in rows)
