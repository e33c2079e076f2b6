"""What a reply in llama-server's shape needs to know of its request besides the request itself."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class NativeOptions:
    """`index`: of the generation among those of the reply. `top`: rivals shown with each token,
    `post_sampling`: as probabilities of what the sampler chain left. `fields`: those of the last
    object that are wanted, a path as `a/b`, none of them: all."""

    index: int = 0
    stream: bool = False
    return_progress: bool = False
    return_tokens: bool = False
    top: int = 0
    post_sampling: bool = False
    fields: tuple[str, ...] = ()


def options_to_json(options: NativeOptions) -> str:
    """JSON text."""
    return json.dumps(asdict(options))


def options_from_json(text: str) -> NativeOptions:
    """The options in `text`."""
    values = json.loads(text)
    return NativeOptions(**{**values, "fields": tuple(values["fields"])})
