"""Forms of upstream servers. A key is typed and never shown again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from inference.models import MAX_CONTEXT_LEN, MAX_SLOTS, MODEL_NAME_LEN
from inference.registry.chat_checks import dialect_check
from inference.registry.config_services import name_check
from inference.registry.upstreams import (
    FIELDS,
    MAX_KEY_CHARS,
    change_check,
    key_check,
    remote_model_check,
    url_check,
)
from inference.upstream_models import Upstream
from llamaweb.lib.errors import InvalidError

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[Upstream]
else:
    _ModelForm = forms.ModelForm

DEFAULT_SLOTS = 4


class _Form(_ModelForm):
    """What both forms have: the fields of the row, and a key."""

    key = forms.CharField(
        label=_("key"),
        required=False,
        max_length=MAX_KEY_CHARS,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "off"}),
    )

    class Meta:
        model = Upstream
        fields = FIELDS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.label = capfirst(str(field.label)) if field.label else field.label

    def clean_url(self) -> str:
        """An address that can be asked."""
        return str(_checked(lambda: url_check(self.cleaned_data["url"])))

    def clean_remote_model(self) -> str:
        """A name."""
        return str(_checked(lambda: remote_model_check(self.cleaned_data["remote_model"])))

    def clean_key(self) -> str:
        """What can stand in a header."""
        return str(_checked(lambda: key_check(self.cleaned_data["key"])))


class AddUpstreamForm(_Form):
    """A model that another server computes."""

    name = forms.CharField(
        label=_("name"),
        max_length=MODEL_NAME_LEN,
        help_text=_("What the model is called here."),
        widget=UnfoldAdminTextInputWidget,
    )
    num_slots = forms.IntegerField(
        label=_("slots"),
        min_value=1,
        max_value=MAX_SLOTS,
        initial=DEFAULT_SLOTS,
        help_text=_("Requests that are sent side by side; more wait here in their turn."),
        widget=UnfoldAdminIntegerFieldWidget,
    )
    context_len = forms.IntegerField(
        label=_("context"),
        min_value=0,
        max_value=MAX_CONTEXT_LEN,
        initial=0,
        help_text=_("Tokens of prompt and answer together; 0: what the server says, if it does."),
        widget=UnfoldAdminIntegerFieldWidget,
    )
    load = forms.BooleanField(
        label=_("load it"), required=False, initial=True, widget=UnfoldBooleanSwitchWidget
    )

    def clean_name(self) -> str:
        """Free and allowed."""
        return str(_checked(lambda: name_check(self.cleaned_data["name"])))


class ChangeUpstreamForm(_Form):
    """How the server is asked from now on."""

    forget_key = forms.BooleanField(
        label=_("remove the key"), required=False, widget=UnfoldBooleanSwitchWidget
    )

    @property
    def new_key(self) -> str | None:
        """What is to be stored: a key, "" for none, None for the one there is."""
        return "" if self.cleaned_data["forget_key"] else self.cleaned_data["key"] or None

    def clean(self) -> dict[str, Any]:
        """A key that is kept stays with its server."""
        found = super().clean() or self.cleaned_data
        if found.get("forget_key") and found.get("key"):
            self.add_error("key", _("Enter a key or remove it, not both."))
        if self.errors:
            return found
        before = Upstream.objects.get(pk=self.instance.pk)
        try:
            change_check(before, url=found["url"], has_key=self.new_key is not None)
            dialect_check(found["dialect"], before.config.template_kwargs)
        except InvalidError as error:
            self.add_error(error.param, error.message)
        return found


def _checked(check: Any) -> Any:
    try:
        return check()
    except InvalidError as error:
        raise forms.ValidationError(error.message) from error
