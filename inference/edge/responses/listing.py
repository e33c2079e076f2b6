"""The items that a stored response was made of, page by page."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from inference.edge.responses.items import Item
from inference.edge.responses.schemas import MAX_ID_CHARS
from inference.edge.responses.stored import past_of
from inference.registry.responses import items_read, response_get
from llamaweb.lib.errors import InvalidError

MAX_LIMIT = 100


class ItemsQuery(BaseModel):
    """The query of a page: `limit` items behind the one called `after`."""

    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: Annotated[str, Field(max_length=MAX_ID_CHARS)] | None = None


def items_page(user_id: int, response_id: str, query: ItemsQuery) -> dict[str, Any]:
    """One page; without an `order` the last item comes first.

    Raises:
        NotFoundError: absent or not theirs.
        InvalidError: there is no item called `after`.
    """
    record = response_get(user_id=user_id, response_id=response_id)
    items = [*_before(user_id, record.previous_id), *items_read(record)]
    if query.order == "desc":
        items.reverse()
    start = 0
    if query.after is not None:
        ids = [item["id"] for item in items]
        if query.after not in ids:
            raise InvalidError("there is no such item", param="after")
        start = ids.index(query.after) + 1
    page = items[start : start + query.limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else "",
        "last_id": page[-1]["id"] if page else "",
        "has_more": start + query.limit < len(items),
    }


def _before(user_id: int, previous_id: str) -> list[Item]:
    """What the response goes on from, as far as it is still there."""
    try:
        return past_of(user_id, previous_id or None).items
    except InvalidError:
        return []
