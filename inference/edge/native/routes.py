"""llama-server's own routes; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from typing import Any, TypeAlias

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router

from inference import api
from inference.edge.asking import SubmitContext, caller_of, ping_s, submit_context
from inference.edge.models.permissions import is_administrator
from inference.edge.native import properties, tokens
from inference.edge.native.convert import completion_requests, infill_requests
from inference.edge.native.render import RESULTS, NativeWire
from inference.edge.native.schemas import (
    DetokenizeIn,
    InfillIn,
    NativeCompletionIn,
    NativeGenerationIn,
    TokenizeIn,
)
from inference.edge.openai.schemas import ChatCompletionIn
from inference.edge.prompt_bounds import refuse_hopeless
from inference.edge.replies import reply
from inference.protocol.requests import GenerateRequest
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import InvalidError, NotSupportedError, UnavailableError

router = Router(tags=["llama-server"])

Body: TypeAlias = dict[str, Any]
Results: TypeAlias = Body | list[Body]
SLOT_ACTIONS = ("save", "restore", "erase")
YES = ("1", "true")


@router.post("/completion", response={200: Results}, summary="Completion")
@router.post("/completions", response={200: Results}, include_in_schema=False)
async def completion(
    request: HttpRequest, body: NativeCompletionIn
) -> Results | StreamingHttpResponse:
    """The continuation of one or several texts; with `stream` as server-sent events."""
    context = await submit_context(request, body.model)
    return await _reply(request, body, context, completion_requests(body, context))


@router.post("/infill", response={200: Results}, summary="Fill a gap")
async def infill(request: HttpRequest, body: InfillIn) -> Results | StreamingHttpResponse:
    """What stands between two texts, of models that can mark a gap."""
    context = await submit_context(request, body.model)
    return await _reply(request, body, context, infill_requests(body, context))


@router.post("/tokenize", response={200: Body}, summary="Text to tokens")
async def tokenize(request: HttpRequest, body: TokenizeIn) -> Body:
    """Token ids of a text, if you like with what each is."""
    return await tokens.tokenize(body, await submit_context(request, body.model))


@router.post("/detokenize", response={200: Body}, summary="Tokens to text")
async def detokenize(request: HttpRequest, body: DetokenizeIn) -> Body:
    """The text of token ids, that of special tokens too."""
    return await tokens.detokenize(body, await submit_context(request, body.model))


@router.post("/apply-template", response={200: Body}, summary="A chat as its prompt")
async def apply_template(request: HttpRequest, body: ChatCompletionIn) -> Body:
    """A chat as the model's template writes it."""
    return await tokens.apply_template(body, await submit_context(request, body.model))


@router.get("/props", response={200: Body}, summary="Properties")
async def props(request: HttpRequest, model: str | None = None) -> Body:
    """Of the model that `model` names, and of this server."""
    caller = caller_of(request)
    card = await api.model_card_for(caller.user_id, model, caller.model_names)
    engine = await api.engine_status(card.info.name)
    context = await submit_context(request, card.info.name) if engine.ready else None
    return await properties.props_body(card, engine, context)


@router.post("/props", response={200: Body}, summary="Change properties")
async def set_props(request: HttpRequest) -> Body:
    """There are none that can be changed."""
    raise NotSupportedError("This server does not support changing global properties.")


@router.get("/slots", response={200: list[Body]}, summary="Slots")
async def slots(
    request: HttpRequest, model: str | None = None, fail_on_no_slot: str = ""
) -> list[Body]:
    """Of the model that `model` names. What is done in a slot is told to its owner, and to
    administrators; texts are told to nobody. With `fail_on_no_slot` 503 if none is free."""
    caller = caller_of(request)
    info = await api.model_resolve_for(caller.user_id, model, caller.model_names)
    engines = await api.engine_list(info.name)
    sees_all = await in_database(is_administrator)(caller, "change")
    bodies = properties.slot_bodies(info, engines, None if sees_all else caller.owner_key)
    if fail_on_no_slot in YES and all(body["is_processing"] for body in bodies):
        raise UnavailableError("no slot available")
    return bodies


@router.post("/slots/{id_slot}", response={200: Body}, summary="Save, restore or erase a slot")
async def slot_action(request: HttpRequest, id_slot: str, action: str = "") -> Body:
    """Not possible here: slots aren't files of their users', and no slot is anybody's own."""
    if not (id_slot.isascii() and id_slot.isdigit()):
        raise InvalidError("Invalid slot ID", param="id_slot")
    if action not in SLOT_ACTIONS:
        raise InvalidError(
            f"Invalid action, must be one of {', '.join(SLOT_ACTIONS)}", param="action"
        )
    raise NotSupportedError("This server does not support slots action.")


async def _reply(
    request: HttpRequest,
    body: NativeGenerationIn,
    context: SubmitContext,
    requests: list[GenerateRequest],
) -> Results | StreamingHttpResponse:
    """One object, or a list of them where several generations were asked for."""
    await refuse_hopeless(context.model, [each.prompt for each in requests])
    answer = await reply(
        requests,
        NativeWire(requests),
        stream=body.stream,
        ping_s=ping_s(body.sse_ping_interval),
        caller=caller_of(request),
    )
    if isinstance(answer, StreamingHttpResponse):
        return answer
    results: list[Body] = answer[RESULTS]
    return results[0] if len(results) == 1 else results
