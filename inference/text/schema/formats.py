"""What `format` asks of a text, as far as it can be enforced."""

from __future__ import annotations

from typing import Any

# Enforced as they are by the compiler of grammars.
COMPILED = ("duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid")

_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"  # not 0000
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = (
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
# Written as patterns here: the 29th of February comes in leap years only, and no minute has 61
# seconds.
PATTERNS = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
}
MAX_EXACT = 2**53  # whole numbers up to here are exact as floating-point numbers
# OpenAPI's, of numbers.
RANGES: dict[str, dict[str, Any]] = {
    "int32": {"minimum": -(2**31), "maximum": 2**31 - 1},
    "int64": {"minimum": -MAX_EXACT, "maximum": MAX_EXACT},
}
NO_MATTER = ("float", "double", "password")
KNOWN = (*COMPILED, *PATTERNS, *RANGES, *NO_MATTER)
