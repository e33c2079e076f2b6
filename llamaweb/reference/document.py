"""One OpenAPI document of all API families, made of what each says of its routes."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass
from typing import Any, Final

from ninja import NinjaAPI

from inference.edge.resumable.wish import FIELD, HEADER, MAX_STREAM_ID_CHARS
from llamaweb.api import anthropic_api, native_api, ollama_api, openai_api
from llamaweb.reference import errors
from llamaweb.reference.examples import EXAMPLES

Json = dict[str, Any]

TITLE: Final = "llamaweb"
ABOUT: Final = (
    "Every route takes a key as `Authorization: Bearer KEY` or as `x-api-key: KEY`. Beside what "
    "stands at each route, any may answer 405 for another method, 408 for a request that takes too "
    "long to arrive and 431 for headers that are too large. Unknown fields are ignored."
)
EVENT_STREAM: Final = "text/event-stream"
NDJSON: Final = "application/x-ndjson"
REF: Final = "#/components/schemas/"
OPEN_PATHS: Final = frozenset({"/health"})
# What a route may answer beside what follows from what it takes.
MORE_STATUSES: Final[dict[str, tuple[int, ...]]] = {
    "/v1/stream": (404, 410),
    "/v1/stream/{stream_id}": (410,),
    "/v1/audio/transcriptions": (400, 413, 501),
    "/v1/lora-adapters": (400, 413, *errors.OF_ENGINE),
    "/props": (501,),
    "/slots": (501,),
    "/slots/{id_slot}": (501,),
}
STREAMS: Final = frozenset({"/v1/stream", "/v1/stream/{stream_id}"})
EVENTS: Final = "/v1/models/sse"


@dataclass(frozen=True, slots=True)
class Family:
    """Where an API is mounted and how its errors and streams look."""

    name: str
    api: NinjaAPI
    prefix: str
    error: str = "OpenAIError"
    stream: str = EVENT_STREAM


FAMILIES: Final = (
    Family("OpenAI", openai_api, "/v1/"),
    Family("Anthropic", anthropic_api, "/v1/", "AnthropicError"),
    Family("Ollama", ollama_api, "/api/", "OllamaError", NDJSON),
    Family("LlamaServer", native_api, "/"),
)


@functools.cache
def api_document() -> Json:
    """The document; it doesn't change while the process lives, so don't change it."""
    schemas: Json = copy.deepcopy(errors.SCHEMAS)
    paths: Json = {}
    tags: list[str] = []
    for family in FAMILIES:
        said: Json = copy.deepcopy(dict(family.api.get_openapi_schema(path_prefix=family.prefix)))
        said = _renamed(said, _clashes(said, schemas), family.name)
        schemas |= said["components"]["schemas"]
        for path, operations in said["paths"].items():
            for method, operation in operations.items():
                _complete(operation, method, path, family, schemas)
                tags += [tag for tag in operation.get("tags", ()) if tag not in tags]
            paths.setdefault(path, {}).update(operations)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": "1", "description": ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def body_schema(operation: Json, schemas: Json) -> Json:
    """What a route takes as its body, {} for nothing."""
    content = operation.get("requestBody", {}).get("content", {})
    return resolved(content.get("application/json", {}).get("schema", {}), schemas)


def resolved(schema: Json, schemas: Json) -> Json:
    """`schema`, or what it refers to."""
    name = str(schema.get("$ref", "")).removeprefix(REF)
    found: Json = schemas[name] if name else schema
    return found


def _complete(operation: Json, method: str, path: str, family: Family, schemas: Json) -> None:
    """Add what the families' own descriptions don't say."""
    operation["operationId"] = _operation_id(method, path)
    operation["security"] = [{"bearer": []}, {"apiKey": []}]
    body = body_schema(operation, schemas)
    fields = body.get("properties", {})
    success = next(iter(operation["responses"].values()))
    if path in STREAMS and method == "get":
        success["description"] = "The stream, in the encoding of its API."
        success["content"] = _streams(EVENT_STREAM, NDJSON)
        operation["parameters"] = [*operation.get("parameters", ()), _LAST_EVENT_ID]
    elif path == EVENTS:
        success["description"] = "Events as they happen."
        success["content"] = _streams(EVENT_STREAM)
    elif "stream" in fields:
        success.setdefault("content", {}).update(_streams(family.stream))
        operation["parameters"] = [*operation.get("parameters", ()), _CONVERSATION_ID]
        fields[FIELD] = _RESUMABLE
    if path in EXAMPLES and body:
        operation["requestBody"]["content"]["application/json"]["example"] = EXAMPLES[path]
    statuses = _statuses(operation, method, path, fields)
    operation["responses"] |= errors.error_responses(statuses, family.error)


def _statuses(operation: Json, method: str, path: str, fields: Json) -> set[int]:
    """The errors of a route."""
    parameters = operation.get("parameters", ())
    names = {parameter["name"] for parameter in parameters}
    statuses = {*errors.ALWAYS, *MORE_STATUSES.get(path, ())}
    if parameters or "requestBody" in operation:
        statuses.update(errors.WITH_INPUT)
    if "requestBody" in operation:
        statuses.update(errors.WITH_BODY)
    if "{" in path or {"model", "name"} & ({*names, *fields}):
        statuses.update(errors.WITH_NAME)
    if method == "post":
        statuses.update(errors.OF_ENGINE)
    return statuses


def _operation_id(method: str, path: str) -> str:
    words = path.replace("{", "").replace("}", "").replace("-", "_").strip("/").split("/")
    return "_".join([method, *words])


def _streams(*kinds: str) -> Json:
    return {kind: {"schema": {"type": "string"}} for kind in kinds}


def _clashes(said: Json, schemas: Json) -> set[str]:
    """Names that mean something else already."""
    mine = said["components"]["schemas"]
    return {name for name in mine if name in schemas and mine[name] != schemas[name]}


def _renamed(said: Any, names: set[str], prefix: str) -> Any:
    """`said`, whose schemas called `names` begin with `prefix`."""
    if isinstance(said, list):
        return [_renamed(item, names, prefix) for item in said]
    if not isinstance(said, dict):
        return said
    out: Json = {}
    for key, value in said.items():
        if key == "$ref" and str(value).removeprefix(REF) in names:
            out[key] = f"{REF}{prefix}{str(value).removeprefix(REF)}"
        elif key == "schemas":
            kept = _renamed(value, names, prefix)
            out[key] = {f"{prefix}{n}" if n in names else n: s for n, s in kept.items()}
        else:
            out[key] = _renamed(value, names, prefix)
    return out


_CONVERSATION_ID: Final = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Names a stream that goes on without its client, who may take it up again.",
    "schema": {"type": "string", "maxLength": MAX_STREAM_ID_CHARS},
}
_LAST_EVENT_ID: Final = {
    "name": "Last-Event-ID",
    "in": "header",
    "required": False,
    "description": "The id of the last event that the client has.",
    "schema": {"type": "string"},
}
_RESUMABLE: Final = {
    "type": "boolean",
    "default": False,
    "title": "Resumable",
    "description": f"As {HEADER}, under a name that the answer tells in that header.",
}
