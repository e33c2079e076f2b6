"""Models that another server computes: add one, change how it is asked."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from inference.admin.upstream_forms import AddUpstreamForm, ChangeUpstreamForm
from inference.models import ModelConfig
from inference.registry.upstreams import FIELDS, upstream_add, upstream_change
from inference.upstream_models import Upstream
from llamaweb.accounts.admin_base import Admin, display, has_permission, who


@admin.register(Upstream)
class UpstreamAdmin(Admin):
    """Servers behind models; a model is loaded, renamed and deleted on its own page."""

    form = ChangeUpstreamForm
    list_display = ("config", "remote_model", "url", "dialect", "has_key")
    list_select_related = ("config",)
    search_fields = ("config__name", "remote_model", "url")
    ordering = ("config__name",)
    read_only = ("config", "has_key")

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """The model's own numbers are asked for once, with the first form."""
        server = ("url", "remote_model", "key", "dialect", "continues")
        if obj is None:
            served = ("name", "num_slots", "context_len", "load")
            return [(None, {"fields": server}), (_("Serving"), {"fields": served})]
        if not self.has_change_permission(request, obj):
            return [(None, {"fields": ("config", *FIELDS, "has_key")})]
        return [(None, {"fields": ("config", *server, "has_key", "forget_key")})]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Another one to add."""
        kwargs["fields"] = FIELDS
        if obj is None:
            kwargs["form"] = AddUpstreamForm
        return super().get_form(request, obj, change, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Which model it is can't be changed."""
        return () if obj is None else self.read_only

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whoever may add models, too."""
        return super().has_add_permission(request) and has_permission(request, ModelConfig, "add")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """It goes with its model."""
        return False

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Through the services."""
        if change:
            upstream_change(upstream=obj, key=form.new_key, **who(request))
            return
        config = upstream_add(**form.cleaned_data, **who(request))
        obj.config = config

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """The audit log has it."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        """To the model, where it is loaded."""
        messages.success(request, gettext("%(name)s was added.") % {"name": obj.config.name})
        return redirect(f"{self.admin_site.name}:inference_modelconfig_change", obj.config.pk)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """See `Admin.form_view`."""
        show = super().changeform_view
        return self.form_view(
            request,
            object_id,
            gettext("Add a model of another server"),
            lambda told: show(request, object_id, form_url, told | (extra_context or {})),
        )

    @display(description=_("key"), boolean=True)
    def has_key(self, upstream: Upstream) -> bool:
        """Whether there is one; it is shown to nobody."""
        return bool(upstream.sealed_key)
