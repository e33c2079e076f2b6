"""Which model computes, and for whom."""

from __future__ import annotations

from typing import Any, Final

from django.http import HttpRequest

from inference import api
from inference.edge.asking import SubmitContext, caller_of, submit_context
from inference.registry.selectors import DEFAULT_NAMES, Task
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.models import Scope
from llamaweb.lib.ids import new_id

VECTORS_AUTH: Final = ApiKeyAuth(Scope.EMBEDDINGS, Scope.INFERENCE)


async def vector_context(request: HttpRequest, model: str | None, task: Task) -> SubmitContext:
    """As `submit_context`, for `task`: without a name the first model that is made for it, else the
    default one.

    Raises:
        LlamawebError: as there; the model that is named is made for something else.
    """
    caller = caller_of(request)
    if model is None or model in DEFAULT_NAMES:
        infos = await api.model_list_for(caller.user_id, caller.model_names)
        model = next((info.name for info in infos if info.task == task), model)
    return await submit_context(request, model, task=task)


def utility_fields(context: SubmitContext, prefix: str) -> dict[str, Any]:
    """What all requests have that need no slot."""
    return {
        "generation_id": new_id(prefix),
        "model": context.model,
        "owner_key": context.owner_key,
        "submitted_at": context.now_at,
        "deadline_at": context.deadline_at,
        "account": context.account,
    }
