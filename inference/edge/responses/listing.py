"""The items that a stored response was made of, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from inference.edge.responses.items import Item
from inference.edge.responses.schemas import MAX_ID_CHARS
from inference.edge.responses.stored import output_of
from inference.registry.responses import (
    ResponseRecord,
    items_read,
    response_before,
    response_get,
)
from llamaweb.accounts.caller import Caller
from llamaweb.lib.errors import InvalidError

MAX_LIMIT = 100


class ItemsQuery(BaseModel):
    """The query of a page: `limit` items behind the one called `after`."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None


def items_page(caller: Caller, response_id: str, query: ItemsQuery) -> dict[str, Any]:
    """One page; without an `order` the last item comes first. No more is read than it takes.

    Raises:
        NotFoundError: absent or not theirs.
        InvalidError: there is no item called `after`.
    """
    record = response_get(
        user_id=caller.user_id,
        response_id=response_id,
        only=caller.model_names,
        with_log=False,
    )
    items = _items(caller, record, newest_first=query.order == "desc")
    if query.after is not None and all(item["id"] != query.after for item in items):
        raise InvalidError("there is no such item", param="after")
    page = list(islice(items, query.limit))
    has_more = next(items, None) is not None
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else "",
        "last_id": page[-1]["id"] if page else "",
        "has_more": has_more,
    }


def _items(caller: Caller, record: ResponseRecord, *, newest_first: bool) -> Iterator[Item]:
    """What was asked in `record`, with all that it goes on from, as far as it is still there."""
    before = response_before(
        user_id=caller.user_id,
        record=record,
        newest_first=newest_first,
        only=caller.model_names,
    )
    own = items_read(record)
    if newest_first:
        yield from reversed(own)
        for each in before:
            yield from reversed([*items_read(each), *output_of(each)])
    else:
        for each in before:
            yield from (*items_read(each), *output_of(each))
        yield from own
