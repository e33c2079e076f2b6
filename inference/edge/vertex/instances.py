"""An instance of a prediction as a request of its own to the route that it names."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from django.http import HttpRequest

from inference.edge.resumable.wish import HEADER
from llamaweb.lib.errors import InvalidError

FORMAT: Final = "@requestFormat"
# Their aliases are these without /v1, as one word: "chatCompletions".
_ROUTES: Final = (
    *("/v1/chat/completions", "/v1/chat/completions/input_tokens", "/v1/completions"),
    *("/v1/responses", "/v1/responses/input_tokens"),
    *("/v1/messages", "/v1/messages/count_tokens", "/v1/embeddings", "/v1/rerank"),
    *("/completion", "/infill", "/tokenize", "/detokenize", "/apply-template"),
)
_OTHERS: Final = (
    *("/chat/completions", "/chat/completions/input_tokens", "/completions"),
    *("/responses", "/responses/input_tokens"),
    *("/embeddings", "/embedding", "/rerank", "/reranking", "/v1/reranking"),
)


def _alias(route: str) -> str:
    first, *rest = re.split(r"\W|_", route.removeprefix("/v1").strip("/"))
    return first + "".join(word.capitalize() for word in rest)


ALIASES: Final = {_alias(route): route for route in _ROUTES}
_BY_FORMAT: Final = ALIASES | {route: route for route in (*_ROUTES, *_OTHERS)}
_STREAM_NAME: Final = f"HTTP_{HEADER.upper().replace('-', '_')}"  # nothing of it is streamed


def instance_request(request: HttpRequest, instance: Any, path: str) -> HttpRequest:
    """What `instance`, which stands at `path` in the body of `request`, asks in its name.

    Raises:
        InvalidError: no object, or of no route.
    """
    if not isinstance(instance, dict):
        raise InvalidError("must be an object", param=path)
    wanted = instance.get(FORMAT)
    route = _BY_FORMAT.get(wanted) if isinstance(wanted, str) else None
    if route is None:
        raise InvalidError(
            f"must be one of {', '.join(ALIASES)}, or the path of such a route",
            param=f"{path}.{FORMAT}",
        )
    made = HttpRequest()
    made.method = "POST"
    made.path = made.path_info = route
    made.META = {name: value for name, value in request.META.items() if name != _STREAM_NAME}
    made.COOKIES = request.COOKIES
    fields = {name: value for name, value in instance.items() if name != FORMAT}
    made._body = json.dumps({**fields, "stream": False}).encode()
    return made
