"""A request without a prompt: have the model in memory, or let it go.

What is in memory is decided by need and by administrators. Anybody who may use a model may wait
until it is there, as with a prompt; only administrators load what was unloaded, and unload.
"""

from __future__ import annotations

import time

from django.conf import settings
from django.http import HttpRequest

from inference import api
from inference.edge.asking import account_of, caller_of
from inference.edge.models import acts
from inference.edge.models.permissions import is_administrator
from inference.edge.ollama.names import by_name
from inference.edge.utilities import utility_answer
from inference.protocol.requests import TokenizeRequest
from inference.protocol.results import TokenizeResult
from inference.registry.selectors import ModelInfo
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import InvalidError, NotSupportedError
from llamaweb.lib.ids import new_id


async def keep(request: HttpRequest, name: str | None, *, unload: bool) -> ModelInfo:
    """Wait until the model that `name` means is in memory, or have it leave.

    Raises:
        NotFoundError: there is no such model for the caller.
        ForbiddenError: they may not unload it.
        UnavailableError: it was unloaded, and they may not load it.
        LlamawebError: it didn't get there.
    """
    caller = caller_of(request)
    info = await by_name(
        name, lambda each: api.model_resolve_for(caller.user_id, each, caller.model_names)
    )
    address = request.META.get("REMOTE_ADDR")
    if unload:
        await _unload(caller, info, address)
        return info
    if not info.is_loaded:
        if not await in_database(is_administrator)(caller, "change"):
            api.refuse_unloaded(info)
        await in_database(acts.load)(caller, info.name, address)
    await _wait(request, info)
    return info


async def _unload(caller: Caller, info: ModelInfo, address: str | None) -> None:
    try:
        await in_database(acts.unload)(caller, info.name, address)
    except InvalidError:
        if info.is_loaded:
            raise


async def _wait(request: HttpRequest, info: ModelInfo) -> None:
    """The least that an engine can be asked, in the queue with all others."""
    now = time.time()
    asked = TokenizeRequest(
        generation_id=new_id("load-"),
        model=info.name,
        owner_key=caller_of(request).owner_key,
        submitted_at=now,
        deadline_at=now + settings.REQUEST_TIMEOUT_S,
        account=account_of(request).text(),
    )
    try:
        await utility_answer(asked, TokenizeResult)
    except NotSupportedError:
        return  # an engine says so
