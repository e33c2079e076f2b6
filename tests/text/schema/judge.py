"""Whether a value is what a schema asks for, by a library that knows nothing of ours."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator


def faults(schema: Any, value: Any) -> list[str]:
    """What is wrong with `value`; formats count."""
    checker = Draft202012Validator.FORMAT_CHECKER
    validator = Draft202012Validator(schema, format_checker=checker)
    return [error.message for error in validator.iter_errors(value)]
