"""The keywords of JSON Schema (draft 2020-12, and what older drafts had), by what becomes of them.

Words that are in none of these tables mean nothing to any draft and are passed over, as the
standard asks.
"""

from __future__ import annotations

from typing import Any

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
# Applied to parts of the value or to the value itself: a schema, a list, or an object of schemas.
ONE = ("items", "additionalProperties")
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
MAPS = ("properties", "patternProperties")
COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
ANNOTATIONS = frozenset(("title", "description", "default", "examples", "deprecated", "$comment"))
_NO_MATTER = object()
# Can't be enforced, but for the value (if any) with which they change nothing.
REFUSED: dict[str, Any] = {
    "not": False,
    "if": _NO_MATTER,
    "contains": _NO_MATTER,
    "uniqueItems": False,
    "unevaluatedItems": True,
    "unevaluatedProperties": True,
    "propertyNames": True,
    "dependentRequired": {},
    "dependentSchemas": {},
    "$dynamicRef": _NO_MATTER,
    # of older drafts
    "additionalItems": True,
    "dependencies": {},
    "disallow": [],
    "divisibleBy": _NO_MATTER,
    "extends": _NO_MATTER,
    "$recursiveRef": _NO_MATTER,
}
# Documents that say which draft a schema is of; it is read as 2020-12 all the same.
DRAFTS = (
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
)


def is_refused(name: str, value: Any) -> bool:
    """Whether this keyword with this value is a promise that can't be kept."""
    if name not in REFUSED:
        return False
    harmless = REFUSED[name]
    if isinstance(harmless, bool):
        return value is not harmless and not (harmless and value == {})
    return bool(value != harmless)
