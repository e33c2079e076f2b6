"""Forms of models: what services would refuse is said beside the field."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from inference.models import PATH_LEN, ModelConfig
from inference.registry.adapters import adapters_check
from inference.registry.chat_defaults import MAX_SYSTEM_CHARS, effort_check, variables_check
from inference.registry.config_fields import FIELDS
from inference.registry.config_services import (
    aliases_check,
    architecture_of,
    change_check,
    name_check,
    tags_check,
)
from inference.registry.downloads import SHA256_RE
from inference.registry.files import file_check
from inference.registry.hub import HubModel, hub_model, is_reference
from inference.registry.sampling import sampling_check
from inference.registry.templates import template_check
from llamaweb.lib.errors import InvalidError, LlamawebError
from llamaweb.lib.outbound import check_url

if TYPE_CHECKING:
    _ModelForm = forms.ModelForm[ModelConfig]
else:
    _ModelForm = forms.ModelForm

MAX_TEMPLATE_CHARS = 256 * 1024
MAX_SPLITS = 16
MAX_LIST_CHARS = 4096
ACCESS_FIELDS = ("is_restricted", "users", "groups")
STARTER_FIELDS = ("name", "num_slots", "context_len", "threads", "gpu_layers", "kv_layout")


class ListField(forms.CharField):
    """Texts with commas between them."""

    def prepare_value(self, value: Any) -> Any:
        """What the input shows."""
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        """The texts, without what stands around them."""
        parts = (super().to_python(value) or "").split(",")
        return [text for part in parts if (text := part.strip())]

    def validate(self, value: Any) -> None:
        """May be empty."""

    def run_validators(self, value: Any) -> None:
        """Of the text, not of the list."""
        super().run_validators(", ".join(value))

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Whether the texts are others."""
        return bool(list(initial or []) != self.to_python(data))


class _Form(_ModelForm):
    """Labels begin with a capital, as those of the model's own fields do."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.label = capfirst(str(field.label)) if field.label else field.label


class AddModelForm(_Form):
    """A model of a file that is here, or of one to be fetched."""

    source = forms.CharField(
        label=_("file or address"),
        max_length=PATH_LEN,
        help_text=_(
            "A GGUF file on this server: its path (/srv/x.gguf) or its name in the models "
            "directory (x.gguf), of a model in several files the first; or the address of one to "
            "download (https://…); or a model of the hub (user/repository:Q4_K_M)."
        ),
        widget=UnfoldAdminTextInputWidget,
    )
    sha256 = forms.CharField(
        label="SHA-256",
        required=False,
        max_length=64,
        help_text=_("Of a download, if you know it: anything else is thrown away."),
        widget=UnfoldAdminTextInputWidget,
    )
    load = forms.BooleanField(
        label=_("load it"),
        required=False,
        initial=True,
        help_text=_("As soon as it is there. It needs memory beside the models that are loaded."),
        widget=UnfoldBooleanSwitchWidget,
    )

    class Meta:
        model = ModelConfig
        fields = ("name",)

    @property
    def is_download(self) -> bool:
        """Whether the source is an address."""
        return "://" in self.cleaned_data.get("source", "")

    hub_model: HubModel | None = None  # that the source means

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if settings.ENGINE_CLASSES:
            more = _("Or an engine class: %(names)s.") % {
                "names": ", ".join(settings.ENGINE_CLASSES)
            }
            field = self.fields["source"]
            field.help_text = f"{field.help_text} {more}"

    def clean_name(self) -> str:
        """Free and allowed."""
        return str(_checked(lambda: name_check(self.cleaned_data["name"])))

    def clean_source(self) -> str:
        """A model is there, or the address can be fetched from, or the hub has it."""
        source: str = self.cleaned_data["source"].strip()
        if source in settings.ENGINE_CLASSES:
            return source
        if is_reference(source):
            self.hub_model = _checked(lambda: hub_model(source))
        elif "://" in source:
            _checked(lambda: check_url(source))
        else:
            _checked(lambda: file_check(source))
        return source

    def clean_sha256(self) -> str:
        """64 hexadecimal digits, or nothing."""
        value: str = self.cleaned_data["sha256"].strip().lower()
        if value and not SHA256_RE.fullmatch(value):
            raise forms.ValidationError(_("A SHA-256 has 64 hexadecimal digits."))
        return value


class ChangeModelForm(_Form):
    """How a model is served."""

    chat_template = forms.CharField(
        label=_("chat template"),
        required=False,
        max_length=MAX_TEMPLATE_CHARS,
        strip=False,
        help_text=_("overrides the model's own"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 6}),
    )

    system_prompt = forms.CharField(
        label=_("system prompt"),
        required=False,
        max_length=MAX_SYSTEM_CHARS,
        strip=False,
        help_text=_("for chats without a system message"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 6}),
    )

    aliases = ListField(
        label=_("other names"),
        required=False,
        max_length=MAX_LIST_CHARS,
        help_text=_("that requests may name it by; with commas between them"),
        widget=UnfoldAdminTextInputWidget,
    )
    tags = ListField(
        label=_("tags"),
        required=False,
        max_length=MAX_LIST_CHARS,
        help_text=_("with commas between them"),
        widget=UnfoldAdminTextInputWidget,
    )

    class Meta:
        model = ModelConfig
        fields = (*FIELDS, *ACCESS_FIELDS)
        widgets = {
            "tensor_split": UnfoldAdminTextInputWidget,
            "adapters": UnfoldAdminTextareaWidget(attrs={"rows": 3}),
            "sampling": UnfoldAdminTextareaWidget(attrs={"rows": 3}),
            "template_kwargs": UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        }

    def clean_tensor_split(self) -> list[float]:
        """Some numbers."""
        value = self.cleaned_data["tensor_split"] or []
        is_list = isinstance(value, list) and len(value) <= MAX_SPLITS
        if not is_list or not all(_is_share(part) for part in value):
            raise forms.ValidationError(_("Give a list of up to 16 shares, such as [3, 1]."))
        return [float(part) for part in value]

    def clean_aliases(self) -> list[str]:
        """Free names."""
        given: list[str] = self.cleaned_data["aliases"]
        found: list[str] = _checked(lambda: aliases_check(given, of=self.instance))
        return found

    def clean_tags(self) -> list[str]:
        """Some words."""
        found: list[str] = _checked(lambda: tags_check(self.cleaned_data["tags"]))
        return found

    def clean_sampling(self) -> dict[str, float | int]:
        """Parameters in their ranges."""
        given = self.cleaned_data["sampling"]
        found: dict[str, float | int] = _checked(lambda: sampling_check(given or {}))
        return found

    def clean_template_kwargs(self) -> dict[str, Any]:
        """What a template can be given."""
        given = self.cleaned_data["template_kwargs"]
        found: dict[str, Any] = _checked(lambda: variables_check(given or {}))
        return found

    def clean_reasoning_effort(self) -> str:
        """A word, or nothing."""
        return str(_checked(lambda: effort_check(self.cleaned_data["reasoning_effort"])))

    def clean_chat_template(self) -> str:
        """One that writes chats."""
        # Browsers send line ends of their own; what is kept has been tried as it is.
        template: str = self.cleaned_data["chat_template"].replace("\r\n", "\n")
        if template != self.instance.chat_template:
            _checked(lambda: template_check(template))
        return template

    def clean_system_prompt(self) -> str:
        """With plain line ends."""
        return str(self.cleaned_data["system_prompt"].replace("\r\n", "\n"))

    def clean_adapters(self) -> list[dict[str, Any]]:
        """Files that can be adapters of this model."""
        value = self.cleaned_data["adapters"] or []
        if value == self.instance.adapters:
            return list(value)
        architecture = architecture_of(self.instance)
        found: list[dict[str, Any]] = _checked(
            lambda: adapters_check(value, architecture=architecture)
        )
        return found

    def _post_clean(self) -> None:
        """What may be changed now, when the fields by themselves are right."""
        super()._post_clean()  # type: ignore[misc]
        if self.errors or self.instance.pk is None:
            return
        before = ModelConfig.objects.get(pk=self.instance.pk)
        changed = [n for n in FIELDS if getattr(before, n) != getattr(self.instance, n)]
        try:
            change_check(before, self.instance, changed)
        except InvalidError as error:
            self.add_error(error.param if error.param in self.fields else None, error.message)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e6


def _checked(check: Any) -> Any:
    try:
        return check()
    except LlamawebError as error:
        raise forms.ValidationError(error.message) from error
