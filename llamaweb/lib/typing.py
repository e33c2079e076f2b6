"""Shared type names."""

from __future__ import annotations

from typing import TypeAlias

JsonScalar: TypeAlias = "str | int | float | bool | None"
Json: TypeAlias = "JsonScalar | list[Json] | dict[str, Json]"
