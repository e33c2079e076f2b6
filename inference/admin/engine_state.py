"""How the engines stand, as plain values for the live page."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.utils.translation import gettext as _

from inference import bus
from inference.admin.measurements import measurement_lines
from inference.admin.memory_lines import use_line
from inference.models import ModelConfig
from inference.queues.contract import SUPERVISOR_ID, EngineStatus, Load
from inference.registry.config_services import is_served
from inference.registry.wanted import can_load, can_unload, can_wait
from llamaweb.lib.errors import UnavailableError

MAX_MODELS = 50
LOG_LEN = 8000
MAX_OWNERS = 20  # shown of those who wait for one model
NUMBERS = (
    "tokens_per_s",
    "prompt_tokens_per_s",
    "prompt_tokens",
    "cached_tokens",
    "generated_tokens",
    "memory_bytes",
    "uptime_s",
    "max_context",
    "num_slots",
    "pid",
)


def state_words() -> dict[str, str]:
    """The states of `model_state`, and of one that is disabled, in the reader's language."""
    return {
        "ready": _("ready"),
        "loading": _("loading"),
        "starting": _("starting"),
        "draining": _("draining"),
        "silent": _("silent"),
        "on_demand": _("on demand"),
        "not_loaded": _("not loaded"),
        "disabled": _("disabled"),
    }


def engines_state() -> dict[str, Any]:
    """Every model with its engines and its queue. `error`: why nothing is known of the engines."""
    rows = ModelConfig.objects.order_by("-is_default", "name").select_related("file")
    rows = rows.defer("file__templates").prefetch_related("calibrations", "file__parts")
    configs = list(rows[:MAX_MODELS])
    queue, error = bus.sync_queue(), ""
    models = []
    for config in configs:
        found: tuple[tuple[EngineStatus, ...], Load] | None = None
        if not error:
            try:
                found = (queue.engines(config.name), queue.load(config.name))
            except UnavailableError as away:
                error = away.message
        models.append(model_state(config, *(found or ((), None))))
    name_owners(owners_of(models))
    return {"models": models, "error": error}


def model_state(
    config: ModelConfig, statuses: tuple[EngineStatus, ...], load: Load | None
) -> dict[str, Any]:
    """One model with what `statuses` say of its engines; owners of waiting requests by their keys,
    see `name_owners`."""
    engines, told = _apart(statuses)
    heard = heard_state(config, statuses)
    return {
        "id": config.pk,
        "name": config.name,
        "is_default": config.is_default,
        "is_enabled": config.is_enabled,
        "wanted": config.wanted if config.is_enabled else "disabled",
        "is_pinned": config.is_pinned,
        **heard,
        "reason": _reason([*engines, *told]),
        "log": _log(engines, told),
        "measured": measurement_lines(config),
        "memory": use_line(config, used_bytes(heard["engines"])),
        "may": {
            "load": can_load(config),
            "on_demand": can_wait(config),
            "drain": is_served(config),
            "unload": can_unload(config),
            "restart": is_served(config) and bool(engines or _log(engines, told)),
            "pin": not config.is_pinned,
            "unpin": config.is_pinned,
        },
        "queue": None if load is None else _queue(load),
    }


def heard_state(config: ModelConfig, statuses: tuple[EngineStatus, ...]) -> dict[str, Any]:
    """What of it changes with each heartbeat: the state, the progress, the engines."""
    engines, told = _apart(statuses)
    return {
        "state": _state(config, engines, told),
        "load_progress": _load_progress(engines),
        "engines": [_engine(status) for status in engines],
    }


def used_bytes(shown: list[dict[str, Any]]) -> int:
    """The memory of the engine that takes the most; 0 without one."""
    return max((int(engine["memory_bytes"]) for engine in shown), default=0)


def _apart(
    statuses: tuple[EngineStatus, ...],
) -> tuple[list[EngineStatus], list[EngineStatus]]:
    """The engines that haven't ended, and what the supervisor tells."""
    engines = [s for s in statuses if s.engine_id != SUPERVISOR_ID and s.state != "stopped"]
    told = [s for s in statuses if s.engine_id == SUPERVISOR_ID and not s.is_silent]
    return engines, told


def _load_progress(engines: list[EngineStatus]) -> float | None:
    """What share of it is loaded, 0 to 1; None where none is being loaded or tells."""
    shares = [s.info.get("load_progress") for s in engines if s.state == "loading"]
    return next((float(share) for share in shares if isinstance(share, int | float)), None)


def _log(engines: list[EngineStatus], told: list[EngineStatus]) -> str:
    """The last words of an engine that couldn't be loaded, until one is ready."""
    if any(status.state == "ready" for status in engines):
        return ""
    return next((str(status.info.get("log", ""))[:LOG_LEN] for status in told), "")


def _reason(said: list[EngineStatus]) -> str:
    """Why it isn't ready: what engines say, or the supervisor."""
    reasons = (str(s.info.get("reason", "")) for s in said if not s.is_silent)
    return next((reason[:500] for reason in reasons if reason), "")


def _state(config: ModelConfig, engines: list[EngineStatus], told: list[EngineStatus]) -> str:
    """The best that can be said: ready, loading, draining, on_demand, silent, starting,
    not_loaded."""
    alive = {status.state for status in engines if not status.is_silent}
    for state in ("ready", "draining", "loading", "starting"):
        if state in alive:
            return state
    if is_served(config):
        if any(status.info.get("on_demand") for status in told):
            return "on_demand"
        return "silent" if engines else "starting"
    return "not_loaded"


def _engine(status: EngineStatus) -> dict[str, Any]:
    numbers = {name: number_of(status.info.get(name, 0)) for name in NUMBERS}
    prompt = numbers["cached_tokens"] + numbers["prompt_tokens"]
    return {
        "id": status.engine_id,
        "state": "silent" if status.is_silent else status.state,
        "age_s": round(status.age_s, 1),
        "running": status.running,
        "cache_hits": round(100 * numbers["cached_tokens"] / prompt, 1) if prompt else None,
        **numbers,
    }


def number_of(value: float | int | str) -> float | int:
    """A number of a heartbeat; 0 for anything else."""
    return value if isinstance(value, int | float) else 0


def _queue(load: Load) -> dict[str, Any]:
    owners = sorted(load.waiting_by_owner.items(), key=lambda item: (-item[1], item[0]))
    return {
        "waiting": load.waiting,
        "background": load.waiting_background,
        "running": load.running,
        "owners": [{"owner": name, "count": count} for name, count in owners[:MAX_OWNERS]],
        "more_owners": max(0, len(owners) - MAX_OWNERS),
    }


def owners_of(models: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those who wait, of all models."""
    return [item for model in models if model["queue"] for item in model["queue"]["owners"]]


def name_owners(owners: list[dict[str, Any]]) -> None:
    """Give each item beside its "owner" key a "name": the user's, or the key; one query."""
    ids = {int(text) for item in owners if (text := item["owner"].removeprefix("user:")).isdigit()}
    names = dict(get_user_model().objects.filter(pk__in=ids).values_list("pk", "username"))
    for item in owners:
        key = item["owner"].removeprefix("user:")
        item["name"] = names.get(int(key), item["owner"]) if key.isdigit() else item["owner"]
