"""How a KV cache may hold its numbers, and what the choice asks for."""

from __future__ import annotations

from llamaweb.lib.errors import InvalidError

WHOLE = ("f16", "bf16", "f32")
QUANTISED = ("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl")
CACHE_TYPES = (*WHOLE, *QUANTISED)
BLOCK_LEN = 32  # numbers that a quantised type packs together: a head has to be a multiple of it


def check_cache_types(*, cache_type_k: str, cache_type_v: str, flash_attention: str) -> None:
    """Whether keys and values can be held so.

    Raises:
        InvalidError: naming the field.
    """
    for name, value in (("cache_type_k", cache_type_k), ("cache_type_v", cache_type_v)):
        if value not in CACHE_TYPES:
            raise InvalidError(f"{name} is one of {', '.join(CACHE_TYPES)}", param=name)
    if needs_flash_attention(cache_type_v) and flash_attention == "off":
        raise InvalidError(
            f"cache_type_v {cache_type_v} needs flash attention, which is off", param="cache_type_v"
        )


def needs_flash_attention(cache_type_v: str) -> bool:
    """Whether values held so can be read by flash attention only."""
    return cache_type_v in QUANTISED
