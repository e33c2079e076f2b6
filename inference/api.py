"""The facade: all that other apps and the edges may know of inference.

Asynchronous functions are for views and consumers, plain ones for services, jobs and commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass

from inference import bus, model_choices
from inference.model_choices import ModelChoice, ModelStand
from inference.open_requests import open_requests, open_requests_close
from inference.protocol.events import CancelledBy
from inference.protocol.reasons import reason_read
from inference.protocol.requests import EngineRequest, GenerateRequest
from inference.queues.contract import (
    START,
    CachePurge,
    Cursor,
    EngineStatus,
    Load,
    Position,
    Read,
    ReasoningEnd,
    Status,
)
from inference.queues.stream_record import StreamRecord
from inference.registry import chat_templates, model_cards, selectors
from inference.registry.generations import (
    generation_create,
    generation_get,
    generation_submit_committed,
)
from inference.registry.model_cards import ModelCard
from inference.registry.results import GenerationResult, generation_result, generation_results
from inference.registry.selectors import ModelInfo, not_loaded, refuse_other_task
from llamaweb.accounts.database import in_database
from llamaweb.lib.errors import UnavailableError

__all__ = [
    "START",
    "Cursor",
    "EngineSummary",
    "GenerationResult",
    "ModelChoice",
    "ModelInfo",
    "ModelStand",
    "Position",
    "Read",
    "StreamRecord",
    "cache_forget_now",
    "chat_template_for",
    "engine_list",
    "engine_status",
    "generation_cancel",
    "generation_cancel_now",
    "generation_create",
    "generation_events",
    "generation_get",
    "generation_read",
    "generation_result",
    "generation_results",
    "generation_status",
    "generation_status_now",
    "generation_submit",
    "generation_submit_committed",
    "model_card_for",
    "model_cards_for",
    "model_choices_for",
    "model_choices_now",
    "model_list",
    "model_list_for",
    "model_load",
    "model_names_now",
    "model_resolve",
    "model_resolve_for",
    "model_resolve_for_now",
    "model_stands",
    "not_loaded",
    "reasoning_end",
    "reasoning_end_now",
    "refuse_other_task",
    "refuse_unloaded",
    "stream_forget",
    "stream_list",
    "stream_remember",
    "streams_close",
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EngineSummary:
    """Whether requests to a model are served now; `reason` says why not, naming no other model.
    `on_demand`: it isn't in memory, and a request has it loaded when there is room."""

    ready: bool
    reason: str
    model: str = ""
    max_context: int = 0
    on_demand: bool = False


async def generation_submit(request: EngineRequest) -> Position:
    """Queue a request. With `keep` False this process holds its reader lease until the reader of
    `generation_events` leaves.

    Raises:
        BusyError: a bound of the queue, or a limit of who has to answer for it, is reached.
        UnavailableError: Redis can't be reached.
    """
    here, open_here = bus.loop_bus(), open_requests(generation_cancel)
    is_kept = isinstance(request, GenerateRequest) and request.keep
    holder = None if is_kept else here.lease.reader_id
    await open_here.reserve(request)
    try:
        position = await here.queue.submit(request, reader_id=holder)
    except BaseException:
        open_here.refused(request)
        raise
    open_here.hold(request)
    if not is_kept:
        here.lease.hold(request.model, request.generation_id)
    return position


async def generation_events(
    model: str, generation_id: str, cursor: Cursor = START, *, expected: bool = False
) -> AsyncGenerator[Read | Position, None]:
    """What comes after `cursor` until the terminal event; see `StreamReader.tail`."""
    here, open_here = bus.loop_bus(), open_requests(generation_cancel)
    try:
        tail = here.reader.tail(model, generation_id, cursor, expected=expected)
        async with contextlib.aclosing(tail) as items:
            async for item in items:
                if isinstance(item, Read):
                    open_here.told(generation_id, item)
                yield item
    finally:
        here.lease.drop(model, generation_id)
        open_here.left(generation_id)


async def generation_cancel(model: str, generation_id: str, by: CancelledBy = "user") -> bool:
    """Ask for the end; True if there was something to end."""
    return await bus.loop_bus().queue.cancel(model, generation_id, by)


async def reasoning_end(reply_id: str, owner_key: str, only: Collection[str] = ()) -> ReasoningEnd:
    """Have the reasoning of an owner's answers end that make up a reply; see `Queue.end_reasoning`.
    `only`: by these models, if there are any.

    Raises:
        UnavailableError: Redis can't be reached.
    """
    queue = bus.loop_bus().queue
    for model in await queue.models():
        if only and model not in only:
            continue
        outcome = await queue.end_reasoning(model, reply_id, owner_key)
        if outcome != "unknown":
            return outcome
    return "unknown"


def reasoning_end_now(model: str, reply_id: str, owner_key: str) -> ReasoningEnd:
    """`reasoning_end` by one model, for synchronous callers."""
    return bus.sync_queue().end_reasoning(model, reply_id, owner_key)


async def generation_status(model: str, generation_id: str) -> Status | None:
    """State and place in the queue; None if the queue knows nothing of it."""
    return await bus.loop_bus().queue.status(model, generation_id)


async def generation_read(model: str, generation_id: str, cursor: Cursor = START) -> Read:
    """What comes after `cursor`, without waiting.

    Raises:
        UnavailableError: Redis can't be reached.
    """
    return await bus.loop_bus().queue.read(model, generation_id, cursor)


async def stream_remember(owner_key: str, record: StreamRecord) -> StreamRecord | None:
    """Let an owner take a stream up again; returns the one that had its name.

    Raises:
        BusyError: the owner has too many.
        InvalidError: it is too large to be remembered.
    """
    return await bus.loop_bus().streams.put(owner_key, record)


async def stream_list(owner_key: str) -> list[StreamRecord]:
    """The streams that an owner may take up again, the oldest first."""
    return await bus.loop_bus().streams.all(owner_key)


async def stream_forget(owner_key: str, record: StreamRecord) -> bool:
    """The opposite of `stream_remember`; False if it was replaced or forgotten already."""
    return await bus.loop_bus().streams.drop(owner_key, record)


def generation_cancel_now(model: str, generation_id: str, by: CancelledBy = "user") -> bool:
    """`generation_cancel` for synchronous callers."""
    return bus.sync_queue().cancel(model, generation_id, by)


def generation_status_now(model: str, generation_id: str) -> Status | None:
    """`generation_status` for synchronous callers."""
    return bus.sync_queue().status(model, generation_id)


def cache_forget_now(*, conversations: tuple[str, ...] = (), owner_key: str = "") -> bool:
    """Have all engines forget what their prompt caches hold of `conversations`, or of an owner.

    False: Redis can't be reached; what they hold is left to be pushed out by others.
    """
    purge = CachePurge(owner_key, conversations)
    queue = bus.sync_queue()
    try:
        for model in queue.models():  # also those whose engines are ending
            queue.purge(model, purge)
    except UnavailableError:
        logger.warning("engines weren't told what to forget: redis is away")
        return False
    return True


async def streams_close() -> None:
    """Stop following; for programs that end their event loop."""
    await open_requests_close()
    await bus.loop_bus_close()


async def model_list() -> list[ModelInfo]:
    """All enabled models, the default one first."""
    return await in_database(selectors.model_list)()


async def model_list_for(user_id: int, only: Collection[str] = ()) -> list[ModelInfo]:
    """Those that a user may use, the default one first. `only`: those that their key is for, none
    for all."""
    return await in_database(selectors.model_list_for)(user_id, only)


async def model_resolve(name: str | None) -> ModelInfo:
    """The model of a name or alias, whoever may use it.

    Raises:
        NotFoundError: there is no such model.
        UnavailableError: none is configured.
    """
    return await in_database(selectors.model_resolve)(name)


async def model_resolve_for(
    user_id: int, name: str | None, only: Collection[str] = ()
) -> ModelInfo:
    """The model that a user's request means, among those of `model_list_for`.

    Raises:
        NotFoundError: there is none, or not for them.
        UnavailableError: there is none at all.
    """
    return await in_database(selectors.model_resolve_for)(user_id, name, only)


async def model_cards_for(user_id: int, only: Collection[str] = ()) -> list[ModelCard]:
    """As `model_list_for`, with all that lists show."""
    return await in_database(model_cards.model_cards_for)(user_id, only)


async def model_card_for(user_id: int, name: str | None, only: Collection[str] = ()) -> ModelCard:
    """As `model_resolve_for`, with all that lists show."""
    return await in_database(model_cards.model_card_for)(user_id, name, only)


async def chat_template_for(user_id: int, name: str, only: Collection[str] = ()) -> str:
    """The chat template of one of those models; "" where nobody has read it.

    Raises:
        NotFoundError: there is no such model, or not for them.
    """
    return await in_database(chat_templates.chat_template_for)(user_id, name, only)


async def model_choices_for(user_id: int) -> list[ModelChoice]:
    """As `model_list_for`, with what a person chooses by."""
    return await in_database(model_choices.model_choices_for)(user_id)


def model_choices_now() -> list[ModelChoice]:
    """All enabled models, whoever may use them; for synchronous callers."""
    return model_choices.model_choices()


def model_names_now(user_ids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Names of what each user may use, in the order of their choices; for synchronous callers."""
    return model_choices.model_names_for(user_ids)


async def model_stands(infos: Sequence[ModelInfo]) -> list[ModelStand]:
    """How each of these models stands now.

    Raises:
        UnavailableError: Redis can't be reached.
    """
    heard = await asyncio.gather(*(engine_list(info.name) for info in infos))
    pairs = zip(infos, heard, strict=True)
    return [model_choices.stand_of(info, engines) for info, engines in pairs]


def refuse_unloaded(info: ModelInfo) -> None:
    """For callers who wait for their answer.

    Raises:
        UnavailableError: an administrator has unloaded the model.
    """
    if not info.is_loaded:
        raise UnavailableError(not_loaded(info.name))


def model_resolve_for_now(user_id: int, name: str | None) -> ModelInfo:
    """`model_resolve_for` for synchronous callers."""
    return selectors.model_resolve_for(user_id, name)


async def model_load(model: str) -> Load:
    """How much waits and runs."""
    return await bus.loop_bus().queue.load(model)


async def engine_list(model: str) -> tuple[EngineStatus, ...]:
    """Heartbeats of a model's engines."""
    return await bus.loop_bus().queue.engines(model)


async def engine_status(name: str | None = None) -> EngineSummary:
    """Whether the model (the default one if None) is served, and why not."""
    info = await model_resolve(name)
    model = info.name
    if not info.is_loaded:
        return EngineSummary(False, not_loaded(model), model)
    engines = await engine_list(model)
    reason, on_demand = "no engine has started yet", False
    for engine in engines:
        if engine.is_silent:
            continue
        if engine.state == "ready":
            return EngineSummary(True, "", model, int(engine.info.get("max_context", 0)))
        if engine.state == "loading":
            reason = f"model {model} is loading"
        elif engine.info.get("reason"):
            reason = reason_read(engine.info).hidden
        on_demand = on_demand or bool(engine.info.get("on_demand"))
    return EngineSummary(False, reason, model, on_demand=on_demand)
