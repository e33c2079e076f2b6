"""What a `$ref` inside a schema stands for, where one that leads nowhere is no mistake of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inference.text.schema.paths import reference_keys, target_of

MAX_REFERENCE_CHARS: Final = 1024


def resolved(reference: str, root: Mapping[str, Any]) -> Any:
    """The part of `root` that the pointer `reference` (`#/…`) leads to, `root` itself for `#`; None
    where it is no pointer into it, such as an address or an anchor, or leads nowhere."""
    keys = reference_keys(reference) if len(reference) <= MAX_REFERENCE_CHARS else None
    try:
        return None if keys is None else target_of(root, keys)[0]
    except LookupError:
        return None
