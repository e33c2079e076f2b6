"""The OpenAPI document of the browser app's API; the front end's types are made from it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from django.conf import settings
from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from conversations.edge import schemas
from conversations.edge.live import frames
from llamaweb.accounts.edge import schemas as account_schemas
from llamaweb.api import app_api

PATH_PREFIX = "/api/app/"
MODULES = (schemas, frames, account_schemas)
UNIONS: dict[str, Any] = {"ClientFrame": frames.ClientFrame, "ServerFrame": frames.ServerFrame}
REF_TEMPLATE = "#/components/schemas/{model}"
TYPES_FILE = Path("frontend/src/types/api.ts")  # below the repository's root
GENERATOR = ("openapi-typescript", "--root-types", "--root-types-no-schema-prefix")
FORMATTER = ("prettier", "--stdin-filepath", "src/types/api.ts")
TOOL_TIMEOUT_S = 60.0
BASES = frozenset({"In", "Numbered"})  # say nothing by themselves


def app_schema() -> dict[str, Any]:
    """Routes, all that goes over them, and all frames of the live connection, in stable order."""
    document: dict[str, Any] = dict(app_api.get_openapi_schema(path_prefix=PATH_PREFIX))
    components = dict(document.get("components", {}))
    found = {**components.get("schemas", {}), **_models(), **_unions()}
    components["schemas"] = {name: found[name] for name in sorted(found)}
    return {**document, "components": components}


def classes(module: ModuleType) -> list[type[BaseModel]]:
    """The public classes that `module` itself defines."""
    return [
        item
        for _, item in inspect.getmembers(module, inspect.isclass)
        if issubclass(item, BaseModel)
        and item.__module__ == module.__name__
        and item.__name__ not in BASES
        and not item.__name__.startswith("_")
    ]


def _models() -> dict[str, Any]:
    wanted = [(item, "validation") for module in MODULES for item in classes(module)]
    _, document = models_json_schema(wanted, ref_template=REF_TEMPLATE)  # type: ignore[arg-type]
    return dict(document["$defs"])


def _unions() -> dict[str, Any]:
    unions = {}
    for name, union in UNIONS.items():
        schema = TypeAdapter(union).json_schema(ref_template=REF_TEMPLATE)
        schema.pop("$defs")
        unions[name] = schema
    return unions


def app_schema_text() -> str:
    """The document as JSON."""
    return json.dumps(app_schema(), indent=1, sort_keys=True)


def types_text() -> str:
    """What TYPES_FILE must hold.

    Raises:
        subprocess.CalledProcessError: a tool of the front end failed.
        FileNotFoundError: it isn't installed.
    """
    return _tool(FORMATTER, _tool(GENERATOR, app_schema_text()))


def _tool(command: tuple[str, ...], text: str) -> str:
    folder = settings.ROOT / "frontend"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # our Node
    name, *options = command
    run = subprocess.run(
        [folder / "node_modules" / ".bin" / name, *options],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        timeout=TOOL_TIMEOUT_S,
    )
    return run.stdout
