"""The Responses routes of the OpenAI family; mounted, with authentication, by `llamaweb.api`."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Query, Router

from inference.edge.asking import caller_of, ping_s, submit_context
from inference.edge.prompt_bounds import refuse_hopeless
from inference.edge.responses.acts import response_cancel, response_forget, response_make
from inference.edge.responses.convert import response_prompt, response_wanted
from inference.edge.responses.items import Item, items_of
from inference.edge.responses.listing import ItemsQuery, items_page
from inference.edge.responses.schemas import ResponseIn, RetrieveQuery
from inference.edge.responses.stored import Past, past_of, response_body, with_references
from inference.edge.responses.streaming import response_stream
from inference.edge.utilities import utility_answer
from inference.protocol.requests import CountRequest
from inference.protocol.results import CountResult
from inference.registry.responses import response_get
from llamaweb.accounts.caller import Caller
from llamaweb.accounts.database import in_database
from llamaweb.lib.ids import new_id

router = Router(tags=["responses"])

Reply = dict[str, Any] | StreamingHttpResponse


@router.post("/responses", response={200: dict[str, Any]}, summary="Response")
async def responses_create(request: HttpRequest, body: ResponseIn) -> Reply:
    """An answer to a list of items; with `stream` as server-sent events."""
    caller = caller_of(request)
    context = await submit_context(request, body.model)
    items, past = await in_database(_input_of)(caller, body)
    wanted = response_wanted(body, context, items, before=past.items, root_id=past.root_id)
    await refuse_hopeless(context.model, [wanted.request.prompt])
    return await response_make(
        wanted,
        caller=caller,
        stream=body.stream,
        ping_interval_s=body.sse_ping_interval,
        previous=past.last,
    )


@router.post("/responses/input_tokens", response={200: dict[str, Any]}, summary="Count tokens")
async def responses_input_tokens(request: HttpRequest, body: ResponseIn) -> dict[str, Any]:
    """How many tokens the model would read of a request."""
    context = await submit_context(request, body.model)
    items, past = await in_database(_input_of)(caller_of(request), body)
    prompt, _, _ = response_prompt(body, context, items, past.items)
    await refuse_hopeless(context.model, [prompt])
    count = CountRequest(
        generation_id=new_id("gen-"),
        model=context.model,
        owner_key=context.owner_key,
        submitted_at=context.now_at,
        deadline_at=context.deadline_at,
        prompt=prompt,
        account=context.account,
    )
    result = await utility_answer(count, CountResult)
    return {"object": "response.input_tokens", "input_tokens": result.prompt_tokens}


@router.get("/responses/{response_id}", response={200: dict[str, Any]}, summary="One response")
async def responses_retrieve(
    request: HttpRequest, response_id: str, query: Query[RetrieveQuery]
) -> Reply:
    """A stored response; with `stream` its events behind the one with number `starting_after`."""
    caller = caller_of(request)
    record = await in_database(response_get)(
        user_id=caller.user_id, response_id=response_id, only=caller.model_names
    )
    if not query.stream:
        return await response_body(record)
    after = -1 if query.starting_after is None else query.starting_after
    return await response_stream(caller, record, after=after, ping_s=ping_s())


@router.delete("/responses/{response_id}", response={200: dict[str, Any]}, summary="Delete one")
async def responses_delete(request: HttpRequest, response_id: str) -> dict[str, Any]:
    """Delete a stored response with its answer; one that is being made ends."""
    await response_forget(caller_of(request), response_id)
    return {"id": response_id, "object": "response", "deleted": True}


@router.post("/responses/{response_id}/cancel", response={200: dict[str, Any]}, summary="Cancel")
async def responses_cancel(request: HttpRequest, response_id: str) -> dict[str, Any]:
    """End a response that is being made."""
    return await response_cancel(caller_of(request), response_id)


@router.get(
    "/responses/{response_id}/input_items", response={200: dict[str, Any]}, summary="Input items"
)
async def responses_input_items(
    request: HttpRequest, response_id: str, query: Query[ItemsQuery]
) -> dict[str, Any]:
    """What a response was made of, with all that it goes on from."""
    return await in_database(items_page)(caller_of(request), response_id, query)


def _input_of(caller: Caller, body: ResponseIn) -> tuple[list[Item], Past]:
    """The items of a request, and what it goes on from."""
    items = with_references(caller, items_of(body.input))
    return items, past_of(caller, body.previous_response_id)
