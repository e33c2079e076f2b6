"""What a response's object needs to know of its request; kept with it."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from inference.edge.responses.calls import ToolRef


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """`shown`: what the object repeats of the request. `with_summary`: thoughts are told as a
    summary. `logprobs`: with log probabilities, and `top` rivals of each token. `tools`: by the
    names that the model sees, those that their client calls by other names or gives text. `places`:
    where the schemas of all that are offered are."""

    shown: dict[str, Any] = field(default_factory=dict)
    with_summary: bool = False
    logprobs: bool = False
    top: int = 0
    is_background: bool = False
    tools: dict[str, ToolRef] = field(default_factory=dict)
    places: tuple[str, ...] = ()


def options_to_json(options: ResponseOptions) -> str:
    """JSON text."""
    return json.dumps(dataclasses.asdict(options))


def options_from_json(text: str) -> ResponseOptions:
    """The options in `text`; unknown ones are ignored."""
    known = {f.name for f in dataclasses.fields(ResponseOptions)}
    given = {k: v for k, v in json.loads(text).items() if k in known}
    tools = {name: ToolRef(**ref) for name, ref in given.get("tools", {}).items()}
    places = tuple(given.get("places", ()))
    return ResponseOptions(**{**given, "tools": tools, "places": places})
