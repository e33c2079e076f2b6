"""Items of the Responses API, as clients send them and as they are kept: what may stand in
`input`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from inference.edge.prompt_bounds import MAX_REQUEST_CHARS
from inference.edge.responses.ids import ItemPlace, item_id
from inference.edge.wire_types import MAX_MESSAGES
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

Item: TypeAlias = dict[str, Any]

MAX_ITEMS: Final = MAX_MESSAGES  # of a request and all that it goes on from
MAX_GIVEN_ID_CHARS: Final = 128
REFERENCE: Final = "item_reference"


def items_of(given: Any) -> list[Item]:
    """The field `input` as items; what one says is looked at when messages are made of them.

    Raises:
        InvalidError: naming the field.
    """
    if isinstance(given, str):
        text = {"type": "input_text", "text": given}
        return [{"type": "message", "role": "user", "content": [text]}]
    if not isinstance(given, list):
        what = "is required" if given is None else "must be text or a list of items"
        raise InvalidError(what, param="input")
    if len(given) > MAX_ITEMS:
        raise InvalidError(
            f"has {len(given)} items, at most {MAX_ITEMS} are allowed", param="input"
        )
    return [_item(item, f"input[{index}]") for index, item in enumerate(given)]


def item_reference(item: Item, path: str) -> str | None:
    """The id that a reference means, which stands at `path`; None: the item is no reference.

    Raises:
        InvalidError: it names none.
    """
    if item["type"] != REFERENCE:
        return None
    reference = item.get("id")
    if not isinstance(reference, str):
        raise InvalidError("must be text", param=path)
    return reference


def items_to_keep(items: list[Item], response_id: str) -> list[Item]:
    """`items` as they are listed later: each with an id, contents in parts, and a status."""
    return [_kept(item, ItemPlace(response_id, True, index)) for index, item in enumerate(items)]


def items_to_json(items: Sequence[Item]) -> str:
    """JSON text as it is kept; half an emoji, cut by a client, is U+FFFD."""
    return valid_text(json.dumps(items, ensure_ascii=False))


def refuse_large(items: Iterable[Item]) -> None:
    """Items may say more than a model is shown of them, and all of it is kept.

    Raises:
        InvalidError: over `MAX_REQUEST_CHARS` as JSON; what stands behind isn't looked at.
    """
    num_chars = 0
    for item in items:
        num_chars += len(items_to_json([item]))
        if num_chars > MAX_REQUEST_CHARS:
            raise InvalidError(
                f"has more than {MAX_REQUEST_CHARS} characters of JSON with what it refers to, "
                "which is the limit of one request",
                param="input",
                bound="prompt",
            )


def _item(item: Any, path: str) -> Item:
    if not isinstance(item, dict):
        raise InvalidError("must be an object", param=path)
    item = {name: value for name, value in item.items() if value is not None}
    kind = item.get("type")
    if kind is None:  # messages and references do without
        kind = "message" if "role" in item else REFERENCE if "id" in item else None
    if not isinstance(kind, str):
        raise InvalidError("must be text", param=f"{path}.type")
    return {**item, "type": kind}


def _kept(item: Item, place: ItemPlace) -> Item:
    own = item.get("id")
    is_given = isinstance(own, str) and 0 < len(own) <= MAX_GIVEN_ID_CHARS
    out = {**item, "id": own if is_given else item_id(item["type"], place)}
    if item["type"] == "message":
        out["content"] = _parts(item)
    out.setdefault("status", "completed")
    return out


def _parts(message: Mapping[str, Any]) -> Any:
    content = message.get("content")
    if not isinstance(content, str):
        return content or []
    if message.get("role") != "assistant":
        return [{"type": "input_text", "text": content}]
    return [{"type": "output_text", "text": content, "annotations": [], "logprobs": []}]
