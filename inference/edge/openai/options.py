"""What a reply of this family needs to know of its request; travels with the generation."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Literal, TypeAlias

ReplyKind: TypeAlias = Literal["chat", "text"]


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    """`index` of `count` choices; choices of the same prompt are `per_prompt` in a row.

    `top`: rivals shown with each token when `logprobs`; `post_sampling`: as probabilities of what
    the sampler chain left. `echo`: the start of an assistant's answer, or the prompt, in front of
    what is generated; `echoes_reasoning`: it is the start of that. `places`, of the first choice:
    where the schemas of the tools are.
    """

    kind: ReplyKind = "chat"
    index: int = 0
    count: int = 1
    per_prompt: int = 1
    include_usage: bool = False
    return_progress: bool = False
    logprobs: bool = False
    top: int = 0
    post_sampling: bool = False
    echo: str = ""
    echoes_reasoning: bool = False
    places: tuple[str, ...] = ()


def options_to_json(options: ReplyOptions) -> str:
    """JSON text without the defaults."""
    fields = dataclasses.fields(options)
    values = {f.name: getattr(options, f.name) for f in fields}
    return json.dumps({f.name: values[f.name] for f in fields if values[f.name] != f.default})


def options_from_json(text: str) -> ReplyOptions:
    """The options in `text`; unknown ones are ignored."""
    known = {f.name for f in dataclasses.fields(ReplyOptions)}
    given = {k: v for k, v in json.loads(text).items() if k in known}
    return ReplyOptions(**{**given, "places": tuple(given.get("places", ()))})
