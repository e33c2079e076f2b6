"""What all administration pages share: who acts, read-only lists, and acts as buttons.

An act changes something, so it is a POST with the form's token, behind a permission of its model,
and the service behind it writes the audit event. Links never act.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils.translation import ngettext
from unfold.admin import ModelAdmin
from unfold.decorators import display as unfold_display

from llamaweb.accounts.models import User
from llamaweb.lib.errors import LlamawebError

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin as DjangoModelAdmin

    _ModelAdmin = DjangoModelAdmin[Any]
else:
    _ModelAdmin = ModelAdmin

F = TypeVar("F", bound=Callable[..., Any])
FormView: TypeAlias = Callable[[dict[str, Any]], HttpResponse]  # takes what the page is told
PER_PAGE = 50
ACTS_TEMPLATE = "llamaweb/admin/acts.html"


def display(**options: Any) -> Callable[[F], F]:
    """unfold's decorator of a column, typed: `description`, `ordering`, `boolean`, `label`."""
    return cast("Callable[[F], F]", unfold_display(**options))


def who(request: HttpRequest) -> dict[str, Any]:
    """The acting person and their address, as services take them."""
    assert isinstance(request.user, User)
    return {"actor": request.user, "address": request.META.get("REMOTE_ADDR")}


@dataclass(frozen=True, slots=True)
class Act:
    """A button on the page of an object.

    `run(request, object)` does it and says what happened, or raises a LlamawebError; `is_open`
    says whether there is anything to do. `permission`: "change" or "delete", of the model.
    """

    name: str
    label: Any
    run: Callable[[HttpRequest, Any], str]
    is_open: Callable[[Any], bool] = lambda _obj: True
    permission: str = "change"
    is_dangerous: bool = False


class Admin(_ModelAdmin):
    """Pages of one model. `acts`: buttons over the form."""

    acts: ClassVar[Sequence[Act]] = ()
    list_per_page = PER_PAGE
    list_filter_submit = True
    list_filter_sheet = False
    show_full_result_count = False
    compressed_fields = True
    warn_unsaved_form = True
    change_form_outer_before_template = ACTS_TEMPLATE

    def get_urls(self) -> list[URLPattern]:
        """One more address: the acts."""
        name = f"{self.opts.app_label}_{self.opts.model_name}_act"
        view = self.admin_site.admin_view(self.act_view)
        return [path("<path:object_id>/act/<slug:act>/", view, name=name), *super().get_urls()]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Without filters the header has no "5 results (Show all)": it shows all already."""
        found = super().get_changelist_instance(request)
        if not found.query and not found.has_active_filters:
            found.full_result_count = found.result_count
        return found

    def act_view(self, request: HttpRequest, object_id: str, act: str) -> HttpResponse:
        """Do an act; back to where it was asked for."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        found = next((item for item in self.acts if item.name == act), None)
        obj = self.get_object(request, unquote(object_id))
        if found is None or obj is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[attr-defined, no-any-return]
        if not self.may(request, found.permission, obj):
            raise PermissionDenied
        self.say(request, lambda: found.run(request, obj))
        view = "changelist" if request.POST.get("to") == "list" else "change"
        still_there = self.model._default_manager.filter(pk=obj.pk).exists()
        args = [obj.pk] if view == "change" and still_there else []
        view = view if args else "changelist"
        name = f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_{view}"
        return redirect(reverse(name, args=args))

    def form_view(
        self, request: HttpRequest, object_id: str | None, add_title: str, show: FormView
    ) -> HttpResponse:
        """`show` a form of a service's: `add_title` over the one that adds. What the service
        refuses though the form was right (somebody else was faster) is said."""
        context: dict[str, Any] = {"show_save_and_add_another": False}
        if object_id is None:
            context |= {"title": add_title, "show_save_and_continue": False}
        try:
            return show(context)
        except LlamawebError as error:
            messages.error(request, error.message)
            return redirect(request.path)

    def may(self, request: HttpRequest, permission: str, obj: Any) -> bool:
        """Whether the acting person has a permission for `obj`."""
        allowed: bool = getattr(self, f"has_{permission}_permission")(request, obj)
        return allowed

    def say(self, request: HttpRequest, run: Callable[[], str]) -> None:
        """Do something and show what came of it."""
        try:
            messages.success(request, run())
        except LlamawebError as error:
            messages.error(request, error.message)

    def run_on(self, request: HttpRequest, objects: Any, run: Callable[[Any], object]) -> None:
        """Do something with each chosen object: how many it was new for, and what went wrong."""
        num_done = 0
        for obj in objects:
            try:
                num_done += bool(run(obj))
            except LlamawebError as error:
                messages.error(request, error.message)
        text = ngettext("%(count)d changed.", "%(count)d changed.", num_done)
        messages.success(request, text % {"count": num_done})

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """With the buttons that may be pressed now."""
        obj = self.get_object(request, unquote(object_id)) if self.acts else None
        found = [] if obj is None else self._open_acts(request, obj)
        context = {"acts": found, **(extra_context or {})}
        return super().change_view(request, object_id, form_url, context)

    def _open_acts(self, request: HttpRequest, obj: Any) -> list[dict[str, Any]]:
        name = f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_act"
        return [
            {
                "label": act.label,
                "url": reverse(name, args=[obj.pk, act.name]),
                "is_dangerous": act.is_dangerous,
            }
            for act in self.acts
            if act.is_open(obj) and self.may(request, act.permission, obj)
        ]


class ReadOnlyAdmin(Admin):
    """Pages on which nothing is typed. Acts ask for the model's permission all the same."""

    warn_unsaved_form = False

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False

    def form_view(
        self, request: HttpRequest, object_id: str | None, add_title: str, show: FormView
    ) -> HttpResponse:
        """`show` a form of a service's: `add_title` over the one that adds. What the service
        refuses though the form was right (somebody else was faster) is said."""
        context: dict[str, Any] = {"show_save_and_add_another": False}
        if object_id is None:
            context |= {"title": add_title, "show_save_and_continue": False}
        try:
            return show(context)
        except LlamawebError as error:
            messages.error(request, error.message)
            return redirect(request.path)

    def may(self, request: HttpRequest, permission: str, obj: Any) -> bool:
        """The permission itself, which the form doesn't ask for."""
        return has_permission(request, self.model, permission)


def has_permission(request: HttpRequest, model: Any, permission: str) -> bool:
    """Whether the acting person has the permission `permission` ("view", "change"…) of `model`."""
    meta = model._meta
    full = f"{meta.app_label}.{permission}_{meta.model_name}"
    return bool(request.user.is_active and request.user.has_perm(full))
