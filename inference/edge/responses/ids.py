"""Ids of a response and of its items. An item's id names its response and its place there, so that
a later request can refer to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from inference.registry.response_access import ID_PREFIX
from llamaweb.lib.ids import ID_LEN, new_id

PREFIXES: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
}
OTHER_PREFIX: Final = "item"
_ID_RE: Final = re.compile(rf"[a-z]+_([A-Za-z0-9]{{{ID_LEN}}})_(in|out)(0|[1-9][0-9]{{0,5}})")


@dataclass(frozen=True, slots=True)
class ItemPlace:
    """Item `index` of what was asked in a response, or of what it answered."""

    response_id: str
    is_input: bool
    index: int


def new_response_id() -> str:
    """An id that nobody can guess."""
    return new_id(ID_PREFIX)


def item_id(kind: str, place: ItemPlace) -> str:
    """The id of an item of type `kind`."""
    key = place.response_id.removeprefix(ID_PREFIX)
    side = "in" if place.is_input else "out"
    return f"{PREFIXES.get(kind, OTHER_PREFIX)}_{key}_{side}{place.index}"


def place_of(text: str) -> ItemPlace | None:
    """Where an item with this id would be; None: it is no id of ours."""
    found = _ID_RE.fullmatch(text)
    if found is None:
        return None
    return ItemPlace(f"{ID_PREFIX}{found[1]}", found[2] == "in", int(found[3]))
