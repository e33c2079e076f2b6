"""`logit_bias` in all its forms: pairs or an object, tokens by id or by text."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from inference.edge.wire_types import MAX_INT32, MAX_NUMBER
from inference.text.prompts import valid_text
from llamaweb.lib.errors import InvalidError

MAX_BIASES = 4096
MAX_BIAS_CHARS = 64 * 1024  # of all texts together; each of their tokens gets the bias
ById: TypeAlias = tuple[tuple[int, float | None], ...]
ByText: TypeAlias = tuple[tuple[str, float | None], ...]


def biases_of(bias: Any) -> tuple[ById, ByText]:
    """Biases by token id and by text; `false` forbids a token, a None here.

    The keys of an object are ids where they are numbers; in pairs a text is always a text.

    Raises:
        InvalidError: naming the entry.
    """
    if not bias:
        return (), ()
    if isinstance(bias, dict):
        pairs: list[Any] = [[_key(key), value] for key, value in bias.items()]
    elif isinstance(bias, list):
        pairs = bias
    else:
        raise InvalidError("must be a list of pairs or an object", param="logit_bias")
    if len(pairs) > MAX_BIASES:
        raise InvalidError(
            f"has {len(pairs)} entries, at most {MAX_BIASES} are allowed",
            param="logit_bias",
            bound="logit_bias",
        )
    by_id: list[tuple[int, float | None]] = []
    by_text: list[tuple[str, float | None]] = []
    for index, pair in enumerate(pairs):
        token, value = _pair(pair, f"logit_bias[{index}]")
        if isinstance(token, str):
            by_text.append((valid_text(token), value))
        else:
            by_id.append((token, value))
    num_chars = sum(len(text) for text, _ in by_text)
    if num_chars > MAX_BIAS_CHARS:
        raise InvalidError(
            f"has texts of {num_chars} characters, at most {MAX_BIAS_CHARS} are allowed",
            param="logit_bias",
            bound="logit_bias",
        )
    return tuple(by_id), tuple(by_text)


def _key(key: str) -> int | str:
    return int(key) if key.isascii() and key.isdigit() and len(key) < 10 else key


def _pair(pair: Any, path: str) -> tuple[int | str, float | None]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise InvalidError("must be a pair of a token and its bias", param=path)
    token, bias = pair
    is_id = type(token) is int and 0 <= token <= MAX_INT32
    if not is_id and not isinstance(token, str):
        raise InvalidError("a token must be an id or a text", param=path)
    if bias is False:
        return token, None
    if isinstance(bias, bool) or not isinstance(bias, int | float) or not math.isfinite(bias):
        raise InvalidError("a bias must be a number or false", param=path)
    if abs(bias) > MAX_NUMBER:
        raise InvalidError(f"a bias must be between -{MAX_NUMBER:g} and {MAX_NUMBER:g}", param=path)
    return token, float(bias)
