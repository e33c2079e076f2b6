"""Acts on an answer that is being written."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictStr

from inference import api
from inference.edge.wire_types import WireSchema
from inference.queues.contract import ReasoningEnd
from llamaweb.accounts.caller import Caller
from llamaweb.lib.errors import InvalidError

MAX_ID_CHARS = 256
REASONING_END = "reasoning_end"
MESSAGES: dict[ReasoningEnd, str] = {
    "unknown": "no active completion for this id",
    "not_enabled": "reasoning control not enabled for this completion",
}


class ControlIn(WireSchema):
    """POST /v1/chat/completions/control. `id`: of the chat completion."""

    id: Annotated[StrictStr, Field(min_length=1, max_length=MAX_ID_CHARS)]
    action: StrictStr


async def control(body: ControlIn, caller: Caller) -> dict[str, Any]:
    """Have the reasoning of one of the caller's answers end, by a model that their key is for; what
    doesn't run is no error.

    Raises:
        InvalidError: there is no such action.
    """
    if body.action != REASONING_END:
        raise InvalidError(f'must be "{REASONING_END}"', param="action")
    outcome = await api.reasoning_end(body.id, caller.owner_key, caller.model_names)
    message = MESSAGES.get(outcome)
    return {"success": message is None, **({"message": message} if message else {})}
