"""Small schemas for the keywords of draft 2020-12, each with what it is about.

`ENFORCED` ones have values a small model can finish; `REFUSED` ones have the path of the refusal.
"""

from __future__ import annotations

from typing import Any

WORD = {"type": "string", "pattern": "^[a-z]{1,8}$"}
SMALL = {"type": "integer", "minimum": 0, "maximum": 99}


def closed(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
        **more,
    }


ENFORCED: dict[str, Any] = {
    "type": {"type": "boolean"},
    "type: null": {"type": "null"},
    "type: integer": {"type": "integer", "maximum": 10**6, "minimum": -(10**6)},
    "type: several": {"type": ["boolean", "null"]},
    "enum": {"enum": ["red", "green", None, 7, {"a": [1]}]},
    "const": {"const": {"b": [1, "é\n"], "a": None}},
    "minimum, maximum": {"type": "integer", "minimum": -3, "maximum": 12},
    "exclusiveMinimum, exclusiveMaximum": {
        "type": "number",
        "exclusiveMinimum": 0.25,
        "exclusiveMaximum": 0.5,
        "multipleOf": 0.0625,
    },
    "multipleOf": {"type": "integer", "multipleOf": 7, "minimum": 0, "maximum": 10**4},
    "minLength, maxLength": {"type": "string", "minLength": 2, "maxLength": 6},
    "pattern": {"type": "string", "pattern": "^[A-Z][a-z]{1,5} [0-9]{2}$"},
    "pattern, anywhere": {"type": "string", "pattern": "b|^a$", "maxLength": 8},
    "pattern with pattern": {
        "type": "string",
        "maxLength": 8,
        "allOf": [{"pattern": "a"}, {"pattern": "^[abc]+$"}],
    },
    "format: date": {"type": "string", "format": "date"},
    "format: time": {"type": "string", "format": "time"},
    "format: date-time": {"type": "string", "format": "date-time"},
    "format: duration": {"type": "string", "format": "duration", "maxLength": 8},
    "format: email": {"type": "string", "format": "email", "maxLength": 20},
    "format: hostname": {"type": "string", "format": "hostname", "maxLength": 16},
    "format: ipv4": {"type": "string", "format": "ipv4"},
    "format: ipv6": {"type": "string", "format": "ipv6"},
    "format: uri": {"type": "string", "format": "uri", "maxLength": 24},
    "format: uuid": {"type": "string", "format": "uuid"},
    "format with pattern": {"type": "string", "format": "date", "pattern": "^20"},
    "items": {"type": "array", "items": SMALL, "maxItems": 4},
    "minItems, maxItems": {"type": "array", "items": WORD, "minItems": 2, "maxItems": 3},
    "prefixItems": {"type": "array", "prefixItems": [SMALL, WORD], "items": False, "minItems": 2},
    "properties, required": closed({"a": SMALL, "b": WORD}, "b"),
    "required, unnamed": {
        "type": "object",
        "required": ["z"],
        "maxProperties": 1,
        "additionalProperties": SMALL,
    },
    "additionalProperties": {
        "type": "object",
        "properties": {"a": SMALL},
        "patternProperties": {"^[b-d]{1,3}$": WORD},
        "additionalProperties": False,
        "required": ["a"],
        "maxProperties": 3,
    },
    "minProperties": {
        "type": "object",
        "patternProperties": {"^[a-z]{1,4}$": SMALL},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 2,
    },
    "anyOf": {"anyOf": [SMALL, closed({"k": {"type": "null"}}, "k")]},
    "anyOf beside properties": closed(
        {"a": SMALL, "b": WORD}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]
    ),
    "oneOf": {
        "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
        "$defs": {
            "cat": closed({"kind": {"const": "cat"}, "lives": SMALL}, "kind", "lives"),
            "dog": closed({"kind": {"const": "dog"}}, "kind"),
        },
    },
    "allOf": {
        "allOf": [
            closed({"a": {"type": "integer"}, "b": WORD}, "a"),
            {"properties": {"a": {"minimum": 3, "maximum": 20}}},
        ]
    },
    "$ref, $defs": closed({"a": {"$ref": "#/$defs/n", "maximum": 4}}, "a")
    | {"$defs": {"n": {"type": "integer", "minimum": 0}}},
    "$ref, recursive": {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": closed(
                {
                    "value": SMALL,
                    "children": {
                        "type": "array",
                        "maxItems": 1,
                        "items": {"$ref": "#/$defs/tree"},
                    },
                },
                "value",
            )
        },
    },
    "$ref to the root": closed({"next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}}, "next"),
    "false": closed({"a": SMALL, "b": False}, "a"),
}
# Left to the walks without a model: long, and others stand for the same keyword there.
LONG = frozenset(
    [
        *("format: uuid", "format: date-time", "format: time", "format: ipv6", "format: uri"),
        *("format: duration", "format with pattern", "pattern, anywhere", "$ref to the root"),
        *("required, unnamed", "type: integer"),
    ]
)
REFUSED: dict[str, tuple[Any, str]] = {
    "not": ({"not": {"type": "null"}}, ".not"),
    "if": ({"if": {"minimum": 3}, "then": {"multipleOf": 2}}, ".if"),
    "contains": ({"type": "array", "contains": SMALL, "minContains": 2}, ".contains"),
    "uniqueItems": (
        closed({"a": {"type": "array", "uniqueItems": True}}),
        ".properties.a.uniqueItems",
    ),
    "unevaluatedItems": ({"unevaluatedItems": False}, ".unevaluatedItems"),
    "unevaluatedProperties": ({"unevaluatedProperties": False}, ".unevaluatedProperties"),
    "propertyNames": ({"propertyNames": WORD}, ".propertyNames"),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, ".dependentRequired"),
    "dependentSchemas": ({"dependentSchemas": {"a": {"required": ["b"]}}}, ".dependentSchemas"),
    "$dynamicRef": ({"$dynamicRef": "#node"}, ".$dynamicRef"),
    "$ref, remote": ({"$ref": "https://example.org/schema"}, ".$ref"),
    "$ref, in circles": ({"anyOf": [{"$ref": "#/anyOf/0"}]}, ".anyOf[0]"),
    "pattern, ahead": ({"type": "string", "pattern": "^(?=a)b"}, ".pattern"),
    "pattern, back": ({"type": "string", "pattern": r"(a)\1"}, ".pattern"),
    "pattern, broken": ({"type": "string", "pattern": "("}, ".pattern"),
    "patternProperties, overlapping": (
        {"patternProperties": {"^a": SMALL, "b$": WORD}},
        "",
    ),
    "patternProperties, broken": ({"patternProperties": {"(": SMALL}}, '.patternProperties["("]'),
    "oneOf, overlapping": ({"oneOf": [{"minimum": 3}, {"multipleOf": 2}]}, ".oneOf"),
    "allOf, too many ways": (
        {
            "allOf": [
                {"anyOf": [{"properties": {f"p{i}{j}": SMALL}} for j in range(10)]}
                for i in range(6)
            ]
        },
        ".allOf",
    ),
    "format, unknown": ({"type": "string", "format": "iri"}, ".format"),
    "minProperties, of any names": ({"type": "object", "minProperties": 2}, ".minProperties"),
    "maxProperties, of optional ones": (
        {"properties": {"a": SMALL, "b": SMALL, "c": SMALL}, "maxProperties": 2},
        "",
    ),
    "nothing fits": (
        closed({"a": {"type": "integer", "minimum": 5, "maximum": 3}}, "a"),
        ".properties.a",
    ),
}
