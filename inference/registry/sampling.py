"""How a model's tokens are picked where a request doesn't say: the defaults of its config."""

from __future__ import annotations

from typing import Any, Final

from llamaweb.lib.errors import InvalidError

MAX_NUMBER: Final = 1e6  # as the API's bound of any number
# (lowest, highest) of what may be a fraction, and of what has to be whole.
FRACTIONS: Final[dict[str, tuple[float, float]]] = {
    "temperature": (0, MAX_NUMBER),
    "dynatemp_range": (0, MAX_NUMBER),
    "dynatemp_exponent": (0, MAX_NUMBER),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "top_n_sigma": (-1, MAX_NUMBER),
    "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1),
    "typical_p": (0, MAX_NUMBER),
    "repeat_penalty": (1e-6, MAX_NUMBER),
    "presence_penalty": (-MAX_NUMBER, MAX_NUMBER),
    "frequency_penalty": (-MAX_NUMBER, MAX_NUMBER),
    "dry_multiplier": (0, MAX_NUMBER),
    "dry_base": (0, MAX_NUMBER),
    "mirostat_tau": (0, MAX_NUMBER),
    "mirostat_eta": (0, MAX_NUMBER),
    "adaptive_target": (-1, 1),
    "adaptive_decay": (0, 0.99),
}
INTEGERS: Final[dict[str, tuple[int, int]]] = {
    "top_k": (0, 2**31 - 1),
    "repeat_last_n": (0, 2**31 - 1),
    "dry_allowed_length": (0, 2**31 - 1),
    "dry_penalty_last_n": (0, 2**31 - 1),
    "mirostat": (0, 2),
    "min_keep": (0, 2**31 - 1),
}


def sampling_check(values: Any) -> dict[str, float | int]:
    """`values`, if they can be a model's defaults: numbers by name.

    Raises:
        InvalidError: naming the value and its range.
    """
    if not isinstance(values, dict):
        raise InvalidError('give an object such as {"temperature": 0.6}', param="sampling")
    for name, value in values.items():
        if name not in FRACTIONS and name not in INTEGERS:
            known = ", ".join((*FRACTIONS, *INTEGERS))
            raise InvalidError(f"{name[:100]!r} is none of: {known}", param="sampling")
        low, high = FRACTIONS.get(name) or INTEGERS[name]
        kinds = (int,) if name in INTEGERS else (int, float)
        if type(value) not in kinds or not low <= value <= high:
            kind = "an integer" if name in INTEGERS else "a number"
            raise InvalidError(f"{name} must be {kind} from {low} to {high}", param="sampling")
    return values
