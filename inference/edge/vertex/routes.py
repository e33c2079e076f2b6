"""Vertex AI's route; mounted where its environment says by `llamaweb.api`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import orjson
from django.conf import settings
from django.http import HttpRequest
from django.urls import resolve
from ninja import Router

from inference.edge.errors import error_reply
from inference.edge.vertex.instances import instance_request
from inference.edge.vertex.schemas import PredictIn
from llamaweb.accounts.auth import ApiKeyAuth
from llamaweb.accounts.models import Scope
from llamaweb.lib.errors import DeadlineError, InvalidError

router = Router(tags=["vertex"])

URL_NAME: Final = "predict"
PREDICT_AUTH = ApiKeyAuth(Scope.INFERENCE, Scope.EMBEDDINGS)  # each instance's own route decides
MAX_PARALLEL: Final = 32  # of a request: half of what one user may have in a queue by default


@router.post("/predict", auth=PREDICT_AUTH, response={200: dict[str, Any]}, url_name=URL_NAME)
async def predict(request: HttpRequest, body: PredictIn) -> dict[str, Any]:
    """The answers to all instances, in order; one that fails has its error in its place."""
    until_ts = asyncio.get_running_loop().time() + settings.REQUEST_TIMEOUT_S
    room = asyncio.Semaphore(MAX_PARALLEL)

    async def predicted(index: int, instance: Any) -> Any:
        try:
            asked = instance_request(request, instance, f"instances[{index}]")
            async with asyncio.timeout_at(until_ts), room:
                return await _answer(asked)
        except InvalidError as error:
            return error_reply(error).body
        except TimeoutError:
            return error_reply(DeadlineError("the time given to the request is over")).body

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(predicted(*each)) for each in enumerate(body.instances)]
    return {"predictions": [task.result() for task in tasks]}


async def _answer(request: HttpRequest) -> Any:
    """What the route of `request` says; of an error's body the error."""
    match = resolve(request.path_info)
    response = await match.func(request, **match.kwargs)
    said = orjson.loads(response.content)
    return said if response.status_code < 400 else {"error": said["error"]}
