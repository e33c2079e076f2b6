"""What a repository of the hub offers, in words: quantizations, sizes, whether they fit here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from inference import bus
from inference.admin.file_facts import short_count
from inference.models import ModelConfig
from inference.queues.contract import SUPERVISOR_ID
from inference.registry.hub import HubChoice, HubRepo
from inference.registry.hub_choice import DEFAULT_QUANT
from inference.registry.hub_fit import Fit, Memory, fits_of, new_serving
from inference.registry.hub_search import FoundRepo
from inference.registry.memory import Serving
from inference.registry.selectors import SERVED, in_order
from inference.supervisor.budget import GPU_PROCESS_BYTES, Need, read_need, read_room
from inference.supervisor.gpus import Gpus, told, unasked
from inference.supervisor.placement import Room, gpu_lefts
from llamaweb.lib.errors import UnavailableError

MAX_ASKED = 20  # models whose heartbeats are looked at


@dataclass(frozen=True, slots=True)
class Left:
    """What a new model may have beside those that always stay. `pinned_bytes`: these take, of the
    host's memory. `is_strict`: its full prompt cache counts, and vectors. `has_gpu`: False where it
    is known that there is none."""

    memory: Memory
    pinned_bytes: int = 0
    is_strict: bool = False
    has_gpu: bool = True

    @property
    def serving(self) -> Serving:
        """How it is served here."""
        return new_serving(has_cache=self.is_strict, has_gpu=self.has_gpu)

    @property
    def words(self) -> str:
        """A sentence about it; "" if nobody can tell."""
        if self.memory.host_bytes is None:
            return ""
        size = filesizeformat(self.memory.host_bytes)
        if self.pinned_bytes:
            pinned = filesizeformat(self.pinned_bytes)
            text = _("A model may take %(size)s of memory here; pinned ones take %(pinned)s.")
            return text % {"size": size, "pinned": pinned}
        return _("A model may take %(size)s of memory here.") % {"size": size}


def gpus_told() -> Gpus:
    """As the supervisor knows them, which asks when a model first wants layers there; it tells with
    each model that it looks after."""
    names = in_order(ModelConfig.objects.filter(is_enabled=True, wanted__in=SERVED))
    try:
        for name in names.values_list("name", flat=True)[:MAX_ASKED]:
            for status in bus.sync_queue().engines(name):
                if status.engine_id == SUPERVISOR_ID and not status.is_silent:
                    return told(str(status.info.get("devices", "")))
    except UnavailableError:
        pass  # the fit is an estimate: without Redis a poorer one
    return unasked


def read_left(gpus: Gpus | None = None) -> Left:
    """As it is now: idle models make way, pinned ones don't."""
    gpus = gpus_told() if gpus is None else gpus
    configs = ModelConfig.objects.filter(is_enabled=True, is_pinned=True, wanted__in=SERVED)
    needs = [read_need(config, gpus) for config in configs.select_related("file")]
    pinned = sum(need.most for need in needs)
    room, place = read_room((), gpus), gpus.place()
    host = None if room.limit_bytes is None else max(0, room.limit_bytes - pinned)
    is_strict = bool(settings.ENGINE_MEMORY_MIB) or bool(pinned)
    memory = Memory(
        host,
        _gpu_rest(room, needs),
        is_shared=place == "host",
        host_vectors=is_strict,
        gpu_vectors=bool(settings.ENGINE_GPU_MEMORY_MIB),
    )
    return Left(memory, pinned, is_strict, has_gpu=place != "nowhere")


def _gpu_rest(room: Room, needs: Sequence[Need]) -> int | None:
    """Of all GPUs together: new models are laid over all of them."""
    if room.gpu_limits is None:
        return None
    lefts = gpu_lefts(room.gpu_limits, [need.gpu for need in needs if not need.is_spread])
    spread = sum(sum(need.gpu) for need in needs if need.is_spread)
    return max(0, sum(max(0, left - GPU_PROCESS_BYTES) for left in lefts) - spread)


def repo_rows(repo: HubRepo, left: Left) -> list[dict[str, Any]]:
    """A row for each model in it; one is the proposal."""
    choices = repo.choices
    models = [choice.model for choice in choices if choice.model is not None]
    fits = fits_of(models, left.serving, left.memory)
    rows = [_row(choice, fits.get(choice.path, "")) for choice in choices]
    proposed = _proposed(rows)
    for row in rows:
        row["is_proposed"] = row is proposed
    return rows


def fit_words(fit: Fit) -> str:
    """Such as "fits" or "too large by 1.5 GB"."""
    if fit.kind == "shorter":
        return _("fits with a context of %(count)s") % {"count": _count(fit.context_len)}
    if fit.kind == "too_large":
        return _("too large by %(size)s") % {"size": filesizeformat(fit.over_bytes)}
    return _("fits")


def found_words(repo: FoundRepo) -> list[str]:
    """What the hub says of a repository."""
    params = ""
    if repo.num_params:
        params = _("%(count)s parameters") % {"count": short_count(repo.num_params)}
    downloads = ngettext("%(count)s download", "%(count)s downloads", repo.num_downloads)
    likes = ngettext("%(count)s like", "%(count)s likes", repo.num_likes)
    return [
        *filter(None, (params, repo.architecture)),
        downloads % {"count": _count(repo.num_downloads)},
        likes % {"count": _count(repo.num_likes)},
        *filter(None, (repo.changed,)),
    ]


def _count(count: int) -> str:
    return number_format(count, force_grouping=True)


def _row(choice: HubChoice, fit: Fit | str) -> dict[str, Any]:
    about = _about(choice)
    row = {"path": choice.path, "quant": choice.quant or choice.path, "problem": choice.problem}
    if isinstance(fit, Fit):
        told = {"fit": fit.kind, "fit_words": fit_words(fit), "about": [*about, _need(fit)]}
        return row | told | {"context_len": str(fit.context_len or "")}
    unknown = _("nobody can tell whether it fits")
    return row | {"fit": "unknown", "fit_words": unknown, "about": [*about, fit]}


def _about(choice: HubChoice) -> list[str]:
    if choice.model is None:
        return []
    files, mmproj = choice.model.files, choice.model.mmproj
    num = len(files)
    parts = [filesizeformat(sum(file.size for file in files))]
    if num > 1:
        parts.append(ngettext("%(count)d file", "%(count)d files", num) % {"count": num})
    if mmproj is not None:
        parts.append(_("and an encoder of %(size)s") % {"size": filesizeformat(mmproj.size)})
    return parts


def _need(fit: Fit) -> str:
    text = _("needs about %(size)s") % {"size": filesizeformat(fit.need_bytes)}
    if fit.device_bytes:
        text += _(", and %(device)s on the GPU") % {"device": filesizeformat(fit.device_bytes)}
    return text


def _proposed(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The usual quantization if it fits, else the largest that does, else the smallest."""
    open_ = [row for row in rows if not row["problem"]]
    fitting = [row for row in open_ if row["fit"] == "fits"]
    usual = [row for row in fitting if row["quant"] == DEFAULT_QUANT]
    return next(iter(usual or fitting[::-1] or open_), None)
