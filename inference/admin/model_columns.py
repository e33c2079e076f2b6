"""The list of models, live: how each stands, what memory it takes, what it can do.

A column is drawn with what the rows say; a script asks `state_view` for what engines say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest, JsonResponse
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _

from inference import bus
from inference.admin.engine_state import heard_state, state_words, used_bytes
from inference.model_choices import Capability, capabilities_of
from inference.models import ModelConfig
from inference.queues.contract import EngineStatus
from inference.registry.memory_plan import model_estimate
from inference.registry.selectors import Task, task_of
from llamaweb.accounts.admin_base import PER_PAGE
from llamaweb.lib.errors import UnavailableError

NEEDED = ("calibrations", "file__parts")  # of rows, by what is told here
MAX_DIGITS = 10  # of an id; Python reads no number of thousands of them


def state_html(config: ModelConfig, site: AdminSite) -> str:
    """How it stands, to be filled in by the script; leads to its live page."""
    return format_html(
        '<a class="lw-tag" href="{}" data-model="{}" data-live="state">–</a>',
        reverse(f"{site.name}:engines_one", args=[config.pk]),
        config.pk,
    )


def memory_html(config: ModelConfig) -> str:
    """What it will need; the script adds what it takes."""
    return format_html(
        '<span data-model="{}" data-live="memory">{}</span>', config.pk, memory_words(config)
    )


def memory_words(config: ModelConfig, used_bytes: int = 0) -> str:
    """What an engine takes, 0 for nothing as yet, and what it was expected to; host and GPUs."""
    found = model_estimate(config)
    words = []
    if used_bytes:
        words.append(_("%(used)s in use") % {"used": filesizeformat(used_bytes)})
    if found is not None:
        size = filesizeformat(found.host_bytes + found.device_bytes)
        words.append(_("about %(host)s") % {"host": size})
    return ", ".join(words) or "–"


def can_words(config: ModelConfig) -> str:
    """What it is for, such as "answers, tools"."""
    tasks: dict[Task, str] = {
        "answers": _("answers"),
        "embedding": _("vectors"),
        "reranking": _("ratings"),
    }
    more: dict[Capability, str] = {"tools": _("tools"), "reasoning": _("reasoning")}
    task = task_of(config)
    can = capabilities_of(config) if task == "answers" else ()
    return ", ".join((tasks[task], *(more[name] for name in can)))


def state_view(request: HttpRequest) -> JsonResponse:
    """How the models stand whose ids are given as `id`, as many as a page has; 503 while Redis is
    away."""
    texts = request.GET.getlist("id")[:PER_PAGE]
    ids = [int(text) for text in texts if text.isdecimal() and len(text) <= MAX_DIGITS]
    rows = ModelConfig.objects.filter(pk__in=[pk for pk in ids if pk < 2**31])
    rows = rows.select_related("file").prefetch_related(*NEEDED)
    headers = {"Cache-Control": "no-store"}
    try:
        models = _stands(list(rows.defer("file__templates")))
    except UnavailableError as away:
        return JsonResponse({"error": away.message}, status=503, headers=headers)
    return JsonResponse({"models": models}, headers=headers)


def _stands(configs: Sequence[ModelConfig]) -> list[dict[str, Any]]:
    queue = bus.sync_queue()
    heard = {config.pk: queue.engines(config.name) for config in configs}
    words = state_words()
    return [_stand(config, heard[config.pk], words) for config in configs]


def _stand(
    config: ModelConfig, statuses: tuple[EngineStatus, ...], words: dict[str, str]
) -> dict[str, Any]:
    """`state` as the live page has it, the rest in words."""
    heard = heard_state(config, statuses)
    is_off = not config.is_enabled and heard["state"] == "not_loaded"
    state = "disabled" if is_off else heard["state"]
    share = heard["load_progress"]
    percent = "" if share is None else f" {int(100 * share)} %"
    return {
        "id": config.pk,
        "state": state,
        "words": words[state] + percent,
        "memory": memory_words(config, used_bytes(heard["engines"])),
    }
