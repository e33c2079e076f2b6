"""Models: add, configure, choose the default, load, drain, unload."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.html import format_html_join
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter

from inference.admin.add_ways import add_ways
from inference.admin.hub_views import hub_urls
from inference.admin.measurements import measurement_lines
from inference.admin.memory_lines import memory_html, memory_view
from inference.admin.model_columns import NEEDED, can_words, state_html, state_view
from inference.admin.model_columns import memory_html as memory_column_html
from inference.admin.model_forms import (
    ACCESS_FIELDS,
    STARTER_FIELDS,
    AddModelForm,
    ChangeModelForm,
)
from inference.models import ModelConfig
from inference.registry.calibrations import can_measure, model_measure
from inference.registry.chat_checks import CHAT_FIELDS
from inference.registry.config_fields import MACHINE_FIELDS, VECTOR_FIELDS
from inference.registry.config_services import (
    delete_refusal,
    is_served,
    model_config_change,
    model_config_delete,
    model_default_set,
)
from inference.registry.downloads import hub_download_start, model_download_start
from inference.registry.engine_classes import model_add
from inference.registry.model_access import model_access_set
from inference.registry.upstreams import ENGINE_CLASS
from inference.registry.wanted import (
    can_load,
    can_unload,
    can_wait,
    model_drain,
    model_load,
    model_on_demand,
    model_pin_set,
    model_restart,
    model_unload,
)
from llamaweb.accounts.admin_base import Act, Admin, display, who
from llamaweb.lib.errors import LlamawebError

Wanted = ModelConfig.Wanted


def _load(request: HttpRequest, config: ModelConfig) -> str:
    model_load(config=config, **who(request))
    return gettext("%(name)s is being loaded.") % {"name": config.name}


def _on_demand(request: HttpRequest, config: ModelConfig) -> str:
    model_on_demand(config=config, **who(request))
    return gettext("%(name)s is loaded when it is asked.") % {"name": config.name}


def _pin(request: HttpRequest, config: ModelConfig) -> str:
    model_pin_set(config=config, is_pinned=True, **who(request))
    return gettext("%(name)s is never unloaded for another model.") % {"name": config.name}


def _unpin(request: HttpRequest, config: ModelConfig) -> str:
    model_pin_set(config=config, is_pinned=False, **who(request))
    return gettext("%(name)s may be unloaded for another model.") % {"name": config.name}


def _restart(request: HttpRequest, config: ModelConfig) -> str:
    model_restart(config=config, **who(request))
    return gettext(
        "%(name)s is restarted: answers get a minute to end, the rest goes on in the new engine."
    ) % {"name": config.name}


def _drain(request: HttpRequest, config: ModelConfig) -> str:
    model_drain(config=config, **who(request))
    return gettext("%(name)s takes no new requests and is unloaded after the last answer.") % {
        "name": config.name
    }


def _unload(request: HttpRequest, config: ModelConfig) -> str:
    model_unload(config=config, **who(request))
    return gettext("%(name)s is being unloaded.") % {"name": config.name}


def _make_default(request: HttpRequest, config: ModelConfig) -> str:
    model_default_set(config=config, **who(request))
    return gettext("%(name)s is the default model.") % {"name": config.name}


def _measure(request: HttpRequest, config: ModelConfig) -> str:
    model_measure(config=config, **who(request))
    return gettext("%(name)s is measured again before it is loaded next.") % {"name": config.name}


ACTS = (
    Act("load", _("Load"), _load, is_open=can_load),
    Act("on_demand", _("Load on demand"), _on_demand, is_open=can_wait),
    Act("pin", _("Pin"), _pin, is_open=lambda c: not c.is_pinned),
    Act("unpin", _("Unpin"), _unpin, is_open=lambda c: c.is_pinned),
    Act("default", _("Make it the default"), _make_default, is_open=lambda c: not c.is_default),
    Act("measure", _("Measure again"), _measure, is_open=can_measure),
    Act("restart", _("Restart"), _restart, is_open=is_served),
    Act("drain", _("Drain"), _drain, is_open=is_served),
    Act(
        "unload",
        _("Unload"),
        _unload,
        is_open=can_unload,
        is_dangerous=True,
    ),
)


@admin.register(ModelConfig)
class ModelConfigAdmin(Admin):
    """How models are served."""

    form = ChangeModelForm
    acts = ACTS
    list_display = ("name", "default", "live_state", "status", "takes", "can", "file_name")
    list_select_related = ("file", "upstream")
    list_filter = (("wanted", ChoicesDropdownFilter),)
    search_fields = ("name", "file__path")
    ordering = ("-is_default", "name")
    filter_horizontal = ("users", "groups")
    actions = ("load", "drain", "unload")
    read_only = (
        "status_text",
        "default",
        "file_name",
        "memory",
        "measurement",
        "engine_class",
        "is_starter",
        "created_at",
    )

    class Media:
        js = ("llamaweb/memory.js", "llamaweb/models.js", "llamaweb/two_lists.js")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With what columns tell of."""
        return super().get_queryset(request).prefetch_related(*NEEDED)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """A short form to add, all there is to change."""
        if obj is None:
            return [(None, {"fields": ("source", "name", "sha256", "load")})]
        served = ("name", "aliases", "tags", "is_enabled", "num_slots", "context_len", "sampling")
        ours = ("chat_template", "special_tokens", "adapters")
        machine = ("memory", "measurement", *MACHINE_FIELDS)
        chats = (_("Chats"), {"fields": CHAT_FIELDS})
        own: list[Any] = [
            (_("Serving"), {"fields": (*served, *ours)}),
            chats,
            (_("Vectors"), {"fields": VECTOR_FIELDS}),
            (_("Machine"), {"fields": machine}),
        ]
        if obj.engine_class == ENGINE_CLASS:  # its template and machine are another server's affair
            own = [(_("Serving"), {"fields": served}), chats]
        return [
            (None, {"fields": ("status_text", "default", "file_name")}),
            *own,
            (_("Who may use it"), {"fields": ACCESS_FIELDS}),
            (_("About"), {"fields": ("engine_class", "is_starter", "created_at")}),
        ]

    def get_urls(self) -> list[URLPattern]:
        """More addresses: the memory that what is typed would need, how the listed ones stand, and
        the hub."""
        view = self.admin_site.admin_view(self.memory_view)
        state = self.admin_site.admin_view(self.state_view)
        return [
            path("<int:pk>/memory/", view, name="inference_modelconfig_memory"),
            path("state/", state, name="inference_modelconfig_state"),
            *hub_urls(self.admin_site),
            *super().get_urls(),
        ]

    def memory_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """See `memory_lines`."""
        config = self.get_object(request, str(pk))
        if config is None or not self.has_view_permission(request, config):
            raise PermissionDenied
        return memory_view(request, config)

    def state_view(self, request: HttpRequest) -> HttpResponse:
        """See `model_columns`."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return state_view(request)

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """Another one to add."""
        if obj is None:
            kwargs |= {"form": AddModelForm, "fields": ["name"]}
        return super().get_form(request, obj, change, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """The environment decides about its own model."""
        if obj is None:
            return ()
        return (*self.read_only, *(STARTER_FIELDS if obj.is_starter else ()))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Through the services."""
        if change:
            chosen = {name: form.cleaned_data[name] for name in ACCESS_FIELDS}
            model_config_change(config=obj, **who(request))
            model_access_set(config=obj, **chosen, **who(request))
            return
        values = form.cleaned_data
        if form.hub_model is not None:
            obj._download = hub_download_start(
                model=form.hub_model, name=values["name"], load=values["load"], **who(request)
            )
            return
        if form.is_download:
            obj._download = model_download_start(
                url=values["source"],
                name=values["name"],
                sha256=values["sha256"],
                load=values["load"],
                **who(request),
            )
            return
        made = model_add(
            name=values["name"], source=values["source"], load=values["load"], **who(request)
        )
        obj.pk = made.pk

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """The service has stored people and groups."""

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """The audit log has it."""

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: Any = None) -> Any:
        """A download is watched in the list of files."""
        if obj.pk is None:
            messages.success(request, gettext("The download has started."))
            return redirect(f"{self.admin_site.name}:inference_modelfile_changelist")
        messages.success(request, gettext("%(name)s was added.") % {"name": obj.name})
        return redirect(f"{self.admin_site.name}:inference_modelconfig_change", obj.pk)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """See `Admin.form_view`; beside the form that adds, the other ways to add."""
        show = super().changeform_view
        ways = add_ways(request, self.admin_site, but="path") if object_id is None else []
        extra = {"ways": ways, **(extra_context or {})}
        return self.form_view(
            request,
            object_id,
            gettext("Add a model"),
            lambda told: show(request, object_id, form_url, told | extra),
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not what is the default, the environment's or loaded."""
        is_allowed = super().has_delete_permission(request, obj)
        return is_allowed and (obj is None or not delete_refusal(obj))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        """Through the service."""
        self.delete_queryset(request, [obj])

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        """Through the service, which says why one can't go."""
        for config in queryset:
            try:
                model_config_delete(config=config, **who(request))
            except LlamawebError as error:
                messages.error(request, error.message)

    @display(
        description=_("wanted"),
        ordering="wanted",
        label={
            Wanted.LOADED.value: "success",
            Wanted.ON_DEMAND.value: "info",
            Wanted.DRAINED.value: "warning",
            "disabled": "danger",
        },
    )
    def status(self, config: ModelConfig) -> tuple[str, str]:
        """What an administrator asked for; how it stands is on the page of engines."""
        if not config.is_enabled:
            return "disabled", gettext("disabled")
        label = str(Wanted(config.wanted).label)
        if config.is_pinned:
            label = gettext("%(wanted)s, pinned") % {"wanted": label}
        return config.wanted, label

    @display(description=_("wanted"))
    def status_text(self, config: ModelConfig) -> str:
        """As in the list."""
        return self.status(config)[1]

    @display(description=_("state"))
    def live_state(self, config: ModelConfig) -> str:
        """How it stands now."""
        return state_html(config, self.admin_site)

    @display(description=_("memory"))
    def takes(self, config: ModelConfig) -> str:
        """What it takes, and what it was expected to."""
        return memory_column_html(config)

    @display(description=_("can do"))
    def can(self, config: ModelConfig) -> str:
        """What requests may ask of it."""
        return can_words(config)

    @display(description=_("memory"))
    def memory(self, config: ModelConfig) -> str:
        """What it will need, and what there is."""
        return memory_html(config)

    @display(description=_("default"), boolean=True, ordering="is_default")
    def default(self, config: ModelConfig) -> bool:
        """The one for requests that name none."""
        return config.is_default

    @display(description=_("file"))
    def file_name(self, config: ModelConfig) -> str:
        """What is served."""
        if config.file is not None:
            return str(config.file)
        if config.engine_class == ENGINE_CLASS:
            return gettext("%(model)s of another server") % {
                "model": getattr(config, "upstream", "–")
            }
        is_starter = config.is_starter and config.engine_class == "llama"
        return config.model_path or (gettext("the starter model") if is_starter else "")

    @display(description=_("measured"))
    def measurement(self, config: ModelConfig) -> str:
        """What nobody has decided and a measurement has."""
        lines = measurement_lines(config)
        return format_html_join("\n", "<p>{}</p>", ([line] for line in lines)) if lines else "–"

    @admin.action(description=_("Load the chosen models"), permissions=["change"])
    def load(self, request: HttpRequest, queryset: Any) -> None:
        """See `model_load`."""
        self.run_on(request, queryset, lambda c: model_load(config=c, **who(request)))

    @admin.action(description=_("Drain the chosen models"), permissions=["change"])
    def drain(self, request: HttpRequest, queryset: Any) -> None:
        """See `model_drain`."""
        self.run_on(request, queryset, lambda c: model_drain(config=c, **who(request)))

    @admin.action(description=_("Unload the chosen models"), permissions=["change"])
    def unload(self, request: HttpRequest, queryset: Any) -> None:
        """See `model_unload`."""
        self.run_on(request, queryset, lambda c: model_unload(config=c, **who(request)))
