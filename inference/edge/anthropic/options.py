"""What a reply of this family needs to know of its request; travels with the generation."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """`hides_thinking`: blocks of thoughts are shown empty. `warnings`: what was left out of the
    request."""

    hides_thinking: bool = False
    warnings: tuple[str, ...] = ()


def options_to_json(options: ReplyOptions) -> str:
    """JSON text."""
    return json.dumps(dataclasses.asdict(options))


def options_from_json(text: str) -> ReplyOptions:
    """The options in `text`; unknown ones are ignored."""
    values = json.loads(text)
    return ReplyOptions(bool(values.get("hides_thinking")), tuple(values.get("warnings", ())))
