"""Stored responses as their routes show them: objects and items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from inference import api
from inference.edge.errors import end_error
from inference.edge.prompt_bounds import MAX_REQUEST_CHARS
from inference.edge.responses.ids import ItemPlace, place_of
from inference.edge.responses.items import Item, item_reference, refuse_large
from inference.edge.responses.render import ResponsesWire
from inference.edge.steps import Broken, Step, Steps
from inference.edge.tool_places import placed
from inference.edge.wire import Frame
from inference.protocol.events import Entry
from inference.protocol.requests import ReplyInfo
from inference.registry.responses import (
    ResponseRecord,
    items_read,
    response_chain,
    response_get,
    responses_chars,
)
from llamaweb.accounts.caller import Caller
from llamaweb.lib.errors import InvalidError, NotFoundError

MAX_REFERENCES: Final = 256


@dataclass(frozen=True, slots=True)
class Past:
    """What a request goes on from. `items` of the whole chain, in order."""

    items: list[Item]
    last: ResponseRecord | None = None

    @property
    def root_id(self) -> str:
        """The first response of the chain, "" without one."""
        return self.last.root_id if self.last is not None else ""


def wire_of(record: ResponseRecord, *, after: int = -1) -> ResponsesWire:
    """Renders a stored response as it was rendered first."""
    return ResponsesWire(
        ReplyInfo(
            reply_id=record.id,
            created_at=record.created_at,
            model_name=record.model_name,
            options_json=record.options,
        ),
        after=after,
    )


def ended_body(record: ResponseRecord) -> dict[str, Any]:
    """The object of a response that has ended."""
    wire = wire_of(record)
    steps = Steps()
    frames: list[Frame] = []
    for entry in entries_of(record):
        frames += frames_of(wire, steps.feed(entry))
    return wire.whole(frames)


def output_of(record: ResponseRecord) -> list[Item]:
    """The items of an answer that has ended."""
    output: list[Item] = ended_body(record)["output"]
    return output


async def response_body(record: ResponseRecord) -> dict[str, Any]:
    """The object of a response, whether it has ended or not."""
    if record.is_ended:
        return ended_body(record)
    status = await api.generation_status(record.model_name, record.generation_id)
    is_queued = status is None or status.state == "queued"
    return wire_of(record).body("queued" if is_queued else "in_progress")


def past_of(caller: Caller, previous_id: str | None) -> Past:
    """What a request that names `previous_id` goes on from.

    Raises:
        InvalidError: it can't be gone on from.
    """
    if previous_id is None:
        return Past([])
    chain = response_chain(
        user_id=caller.user_id,
        response_id=previous_id,
        max_chars=MAX_REQUEST_CHARS,
        only=caller.model_names,
    )
    items = [item for record in chain for item in (*items_read(record), *output_of(record))]
    return Past(items, chain[-1])


def with_references(caller: Caller, items: Sequence[Item]) -> list[Item]:
    """`items` with what their references mean.

    Raises:
        InvalidError: naming the reference: there is no such item for this caller, or too many;
            or too much altogether.
    """
    out = list(items)
    for response_id, places in _references(caller, items).items():
        sides = _sides(caller, response_id)
        for index, place in places.items():
            side = sides[0 if place.is_input else 1]
            if place.index >= len(side):
                raise InvalidError("there is no such item", param=f"input[{index}].id")
            out[index] = side[place.index]
    refuse_large(out)
    return out


def _references(caller: Caller, items: Sequence[Item]) -> dict[str, dict[int, ItemPlace]]:
    """What is referred to, by response and by the index of the reference."""
    found: dict[str, dict[int, ItemPlace]] = {}
    num_references = 0
    for index, item in enumerate(items):
        path = f"input[{index}].id"
        if (reference := item_reference(item, path)) is not None:
            place = place_of(reference)
            if place is None:
                raise InvalidError("there is no such item", param=path)
            found.setdefault(place.response_id, {})[index] = place
            num_references += 1
    if num_references > MAX_REFERENCES:
        raise InvalidError(
            f"refers to {num_references} items, at most {MAX_REFERENCES} are allowed",
            param="input",
        )
    if found:
        _refuse_large(caller, list(found))
    return found


def _refuse_large(caller: Caller, response_ids: Sequence[str]) -> None:
    """All of them are read, whatever is wanted of them."""
    num_chars = responses_chars(
        user_id=caller.user_id, response_ids=response_ids, only=caller.model_names
    )
    if num_chars > MAX_REQUEST_CHARS:
        raise InvalidError(
            f"refers to responses with {num_chars} characters of input, at most "
            f"{MAX_REQUEST_CHARS} are allowed in one request",
            param="input",
            bound="prompt",
        )


def _sides(caller: Caller, response_id: str) -> tuple[list[Item], list[Item]]:
    """What was asked in a response, and what it answered so far; nothing of one that isn't
    theirs."""
    try:
        record = response_get(
            user_id=caller.user_id,
            response_id=response_id,
            only=caller.model_names,
            with_log=False,
        )
    except NotFoundError:
        return [], []
    return items_read(record), output_of(record) if record.is_ended else []


def entries_of(record: ResponseRecord) -> list[Entry]:
    """The log of a response that has ended."""
    return [Entry(seq, event) for seq, event in enumerate(record.events)]


def frames_of(wire: ResponsesWire, steps: Sequence[Step]) -> list[Frame]:
    """What `steps` say, however they end."""
    frames: list[Frame] = []
    for step in steps:
        if isinstance(step, Broken):
            frames += wire.error(placed(end_error(step.end), wire.places))
        else:
            frames += wire.render(0, step)
    return frames
