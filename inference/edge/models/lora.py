"""llama-server's /lora-adapters: a model's adapters, and the scales that hold for everybody."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

from django.http import HttpRequest
from ninja import Router

from inference import api
from inference.edge.models.permissions import administrator
from inference.edge.models.routes import ADMIN_AUTH, MODELS_AUTH, SUCCESS
from inference.edge.openai.adapters import adapters_of
from inference.models import ModelConfig
from inference.registry.config_services import adapters_scale
from inference.registry.model_access import access_models
from inference.registry.selectors import config_resolve
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import InvalidError, LlamawebError
from llamaweb.lib.json_text import json_value

router = Router(tags=["models"])

FROM_ENGINE = ("task_name", "prompt_prefix", "alora_invocation_string", "alora_invocation_tokens")


@router.get(
    "/lora-adapters",
    auth=MODELS_AUTH,
    response={200: list[dict[str, Any]]},
    summary="LoRA adapters",
)
async def adapters(request: HttpRequest, model: str | None = None) -> list[dict[str, Any]]:
    """Those of the model that `model` names, in the order of their ids."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    name, kept = await in_database(_adapters)(caller, model)
    told = await _told(name) if kept else {}
    return [
        {
            "id": number,
            "path": PurePath(one["path"]).name,  # where it lies is nobody's business
            "scale": one["scale"],
            "task_name": "",
            "prompt_prefix": "",
            **{key: value for key, value in told.get(number, {}).items() if key in FROM_ENGINE},
        }
        for number, one in enumerate(kept)
    ]


@router.post(
    "/lora-adapters",
    auth=ADMIN_AUTH,
    response={200: dict[str, Any]},
    summary="Scale LoRA adapters",
)
async def scale(request: HttpRequest, model: str | None = None) -> dict[str, Any]:
    """Keep `[{"id", "scale"}]` for requests that choose none; adapters that aren't named get 0. The
    engine starts anew with them; answers that run go on in the new one, from where they were."""
    caller: Caller = request.auth  # type: ignore[attr-defined]
    scales = json_value(request.body)  # a list, which no other body is
    if not isinstance(scales, list):
        raise InvalidError("the body must be a list of objects with 'id' and 'scale'")
    await in_database(_scale)(caller, model, scales, request.META.get("REMOTE_ADDR"))
    return SUCCESS


def _adapters(caller: Caller, name: str | None) -> tuple[str, list[dict[str, Any]]]:
    config = config_resolve(access_models(caller.user_id, caller.model_names), name)
    return config.name, config.adapters


def _scale(caller: Caller, name: str | None, scales: list[Any], address: str | None) -> None:
    """Raises InvalidError for what can't be a list of scales, NotFoundError, ForbiddenError."""
    actor = administrator(caller, "change")
    config = config_resolve(ModelConfig.objects.all(), name)
    wanted = dict(adapters_of(scales, len(config.adapters)) or ())
    adapters_scale(config=config, scales=wanted, actor=actor, address=address)


async def _told(model: str) -> dict[int, dict[str, Any]]:
    """What the files say of their use, from an engine that has read them; by id."""
    try:
        engines = await api.engine_list(model)
    except LlamawebError:
        return {}
    for engine in engines:
        text = engine.info.get("adapters")
        if not engine.is_silent and isinstance(text, str):
            return {one["id"]: one for one in json.loads(text)}
    return {}
