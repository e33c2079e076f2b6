"""What a reply of this family needs to know of its request; travels with the generation."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """`hides_thinking`: blocks of thoughts are shown empty. `warnings`: what was left out of the
    request. `places`: where the schemas of its tools are."""

    hides_thinking: bool = False
    warnings: tuple[str, ...] = ()
    places: tuple[str, ...] = ()


def options_to_json(options: ReplyOptions) -> str:
    """JSON text."""
    return json.dumps(dataclasses.asdict(options))


def options_from_json(text: str) -> ReplyOptions:
    """The options in `text`; unknown ones are ignored."""
    values = json.loads(text)
    warnings, places = (tuple(values.get(name, ())) for name in ("warnings", "places"))
    return ReplyOptions(bool(values.get("hides_thinking")), warnings, places)
