"""What a model will need of memory, in words: before it is loaded, and beside what it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.http import HttpRequest, JsonResponse
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.translation import gettext as _

from inference.admin.hub_lines import gpus_told
from inference.models import ModelConfig
from inference.registry.config_checks import is_context_cut
from inference.registry.memory import PartName
from inference.registry.memory_plan import config_facts, model_estimate
from inference.supervisor.budget import placed_estimate
from llamaweb.lib.ram import read_ram

WATCHED = (
    "num_slots", "context_len", "kv_layout", "ubatch_len", "cache_type_k", "cache_type_v",
    "flash_attention", "gpu_layers", "pooling",
)  # fmt: skip


def part_names() -> dict[PartName, str]:
    """What people call the parts."""
    return {
        "weights": _("weights"),
        "kv": _("keys and values"),
        "state": _("states"),
        "compute": _("computing"),
        "output": _("results"),
        "vocabulary": _("vocabulary"),
        "adapters": _("adapters"),
        "process": _("the process"),
        "cache": _("prompt cache, at most"),
        "vectors": _("vectors of texts, once asked for"),
    }


def memory_view(request: HttpRequest, config: ModelConfig) -> JsonResponse:
    """The lines for what is typed into the form but not stored yet."""
    changes: dict[str, Any] = {}
    for name in WATCHED:
        if name in request.GET:
            try:
                value = _field(name).clean(request.GET[name], None)
            except ValidationError:
                return JsonResponse({"lines": []})
            changes[name] = value
    lines = memory_lines(config, changes)
    return JsonResponse({"lines": lines}, headers={"Cache-Control": "no-store"})


def _field(name: str) -> Any:
    return ModelConfig._meta.get_field(name)


def memory_lines(config: ModelConfig, changes: Mapping[str, Any] | None = None) -> list[str]:
    """The sum and what it is made of, what there is, and what is noticed; none if nobody knows."""
    found, place = placed_estimate(config, gpus_told, changes)
    if found is None:
        return []
    on_gpu = 0 if place == "host" else found.device_bytes
    on_host = found.host_bytes + found.device_bytes - on_gpu
    parts = [
        f"{name} {filesizeformat(found.part(key).host + found.part(key).device)}"
        for key, name in part_names().items()
        if found.part(key).host or found.part(key).device
    ]
    total = _("about %(host)s") % {"host": filesizeformat(on_host)}
    if on_gpu:
        total += _(", and %(device)s on the GPU") % {"device": filesizeformat(on_gpu)}
    sums = f"{total}: {', '.join(parts)}"
    return [sums, *_room(config, on_host), *_notes(config, changes or {})]


def memory_html(config: ModelConfig) -> str:
    """The lines, for the script to change."""
    lines = memory_lines(config)
    return format_html(
        '<span class="lw-measured" data-memory="{}" role="status" aria-live="polite">{}</span>',
        config.pk or "",
        "\n".join(lines) if lines else "–",
    )


def _room(config: ModelConfig, num_bytes: int) -> list[str]:
    ram = read_ram()
    if ram is None:
        return []
    values = {"free": filesizeformat(ram.available), "total": filesizeformat(ram.total)}
    line = _("this machine has %(free)s free of %(total)s") % values
    is_loaded = config.is_enabled and config.wanted == ModelConfig.Wanted.LOADED
    if num_bytes > ram.available and not is_loaded:
        line += "; " + _("that isn't enough")
    return [line]


def _notes(config: ModelConfig, changes: Mapping[str, Any]) -> list[str]:
    facts = config_facts(config)
    length = changes.get("context_len", config.context_len)
    if facts is None or not is_context_cut(facts, length):
        return []
    return [
        _("the model was trained for %(count)d tokens: no slot gets more")
        % {"count": facts.context_len}
    ]


def use_line(config: ModelConfig, used_bytes: int) -> str:
    """What an engine takes beside what was expected; "" if nobody knows."""
    found = model_estimate(config) if used_bytes else None
    if found is None:
        return ""
    return _("memory: %(used)s in use, %(least)s to %(most)s expected") % {
        "used": filesizeformat(used_bytes),
        "least": filesizeformat(found.loaded_bytes),
        "most": filesizeformat(found.host_bytes),
    }
