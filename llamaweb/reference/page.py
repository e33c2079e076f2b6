"""The OpenAPI document as what a page shows: routes by group, with their fields and a request."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from llamaweb.reference.document import REF, body_schema, resolved

Json = dict[str, Any]

MAX_CHOICES = 8  # of an enumeration that are shown
METHODS = ("get", "post", "delete")
NOTES = {
    "minimum": "≥ {}",
    "maximum": "≤ {}",
    "maxLength": "up to {} characters",
    "maxItems": "up to {} items",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter or a field of a body."""

    name: str
    place: str
    kind: str
    is_required: bool
    default: str
    about: str


@dataclass(frozen=True, slots=True)
class Route:
    """One operation. `anchor`: its id in the page; `curl`: a command line."""

    anchor: str
    method: str
    path: str
    summary: str
    about: str
    fields: tuple[Field, ...]
    statuses: tuple[tuple[str, str], ...]
    curl: str


@dataclass(frozen=True, slots=True)
class Group:
    """The routes of one tag."""

    name: str
    routes: tuple[Route, ...]


def groups_of(document: Json, base_url: str) -> list[Group]:
    """All routes of `document`; commands ask the server at `base_url`."""
    by_tag: dict[str, list[Route]] = {tag["name"]: [] for tag in document["tags"]}
    schemas = document["components"]["schemas"]
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                route = _route(path, method, operations[method], schemas, base_url)
                by_tag[operations[method]["tags"][0]].append(route)
    return [Group(name, tuple(routes)) for name, routes in by_tag.items() if routes]


def curl_of(path: str, method: str, operation: Json, base_url: str) -> str:
    """A command that works as it stands, with the key in LLAMAWEB_API_KEY."""
    query = {}
    for parameter in operation.get("parameters", ()):
        value = _example(parameter)
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", value)
        elif parameter["in"] == "query" and (
            parameter.get("required") or "examples" in parameter["schema"]
        ):
            query[parameter["name"]] = value
    url = f"{base_url}{path}" + (f"?{urlencode(query)}" if query else "")
    words = ["curl", shlex.quote(url)]
    if method != "get":
        words[1:1] = ["-X", method.upper()]
    words += ["\\\n  -H", '"Authorization: Bearer $LLAMAWEB_API_KEY"']
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    if "example" in content:
        body = json.dumps(content["example"], ensure_ascii=False)
        words += ["\\\n  -H", '"Content-Type: application/json"', "\\\n  -d", shlex.quote(body)]
    return " ".join(words)


def kind_of(schema: Json, schemas: Json) -> str:
    """A type in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(REF)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return ", ".join(json.dumps(choice) for choice in schema["enum"][:MAX_CHOICES])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            kinds = [kind_of(each, schemas) for each in schema[key]]
            return " or ".join(kind for kind in dict.fromkeys(kinds) if kind != "null")
    kind = schema.get("type", "anything")
    if isinstance(kind, list):
        kind = " or ".join(each for each in kind if each != "null")
    if kind == "array":
        kind = f"list of {kind_of(schema.get('items', {}), schemas)}"
    notes = [text.format(schema[name]) for name, text in NOTES.items() if name in schema]
    return ", ".join([str(kind), *notes])


def _route(path: str, method: str, operation: Json, schemas: Json, base_url: str) -> Route:
    statuses = operation["responses"].items()
    return Route(
        anchor=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation.get("summary", ""),
        about=operation.get("description", ""),
        fields=tuple(_fields(operation, schemas)),
        statuses=tuple((status, said.get("description", "")) for status, said in statuses),
        curl=curl_of(path, method, operation, base_url),
    )


def _fields(operation: Json, schemas: Json) -> list[Field]:
    found = [
        _field(p["name"], p["in"], p["schema"], schemas, p.get("required", False),
               p.get("description", ""))
        for p in operation.get("parameters", ())
    ]  # fmt: skip
    body = body_schema(operation, schemas)
    required = body.get("required", ())
    for name, schema in body.get("properties", {}).items():
        found.append(_field(name, "body", schema, schemas, name in required))
    return found


def _field(
    name: str, place: str, schema: Json, schemas: Json, is_required: bool, about: str = ""
) -> Field:
    default = schema.get("default")
    shown = "" if default is None or default in ("", {}, []) else json.dumps(default)
    words = about or schema.get("description") or resolved(schema, schemas).get("description", "")
    return Field(name, place, kind_of(schema, schemas), is_required, shown, words)


def _example(parameter: Json) -> str:
    examples = parameter["schema"].get("examples") or [parameter["name"]]
    return str(examples[0])
