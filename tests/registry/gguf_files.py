"""GGUF files written by the tests: small, and as hostile as asked for."""

from __future__ import annotations

import struct
from collections.abc import Mapping

U16, U32, F32, BOOL, STRING, ARRAY, U64 = 2, 4, 6, 7, 8, 9, 10
FORMS = {U16: "H", U32: "I", 5: "i", F32: "f", BOOL: "?", U64: "Q"}
Value = bool | int | float | str | bytes | list[int] | list[bool] | list[str]


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str | bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def entry(key: str, value: Value) -> bytes:
    """A pair of the kind that writers use for such a value."""
    if isinstance(value, str | bytes):
        return pair(key, STRING, text(value))
    if isinstance(value, list):
        if value and isinstance(value[0], str):
            items = b"".join(text(str(item)) for item in value)
            return pair(key, ARRAY, struct.pack("<IQ", STRING, len(value)) + items)
        kind = BOOL if value and isinstance(value[0], bool) else U32
        items = struct.pack(f"<{len(value)}{FORMS[kind]}", *value)
        return pair(key, ARRAY, struct.pack("<IQ", kind, len(value)) + items)
    kind = BOOL if isinstance(value, bool) else F32 if isinstance(value, float) else U32
    return pair(key, kind, struct.pack(f"<{FORMS[kind]}", value))


def tensor(name: str | bytes, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
    packed = struct.pack(f"<{len(dims)}Q", *dims)
    return text(name) + struct.pack("<I", len(dims)) + packed + struct.pack("<IQ", kind, offset)


def header(
    pairs: list[bytes],
    tensors: list[bytes] = [],  # noqa: B006
    *,
    version: int = 3,
    num_pairs: int | None = None,
    num_tensors: int | None = None,
) -> bytes:
    counts = struct.pack(
        "<QQ",
        len(tensors) if num_tensors is None else num_tensors,
        len(pairs) if num_pairs is None else num_pairs,
    )
    return b"GGUF" + struct.pack("<I", version) + counts + b"".join(pairs) + b"".join(tensors)


def whole(values: Mapping[str, Value], tensors: Mapping[str, int] | None = None) -> bytes:
    """A file with these entries and, by name, vectors of so many floats."""
    sizes = {"w": 1024} if tensors is None else tensors
    rows, offset = [], 0
    for name, num_values in sizes.items():
        rows.append(tensor(name, (num_values,), 0, offset))
        offset += -(-num_values * 4 // 32) * 32
    head = header([entry(key, value) for key, value in values.items()], rows)
    return (
        head + b"\0" * (-len(head) % 32) + bytes(range(256)) * (offset // 256) + bytes(offset % 256)
    )


def values(*, architecture: str = "llama", name: str = "Tiny", **more: Value) -> dict[str, Value]:
    """Entries of a small model; `more` by names with _ for . in the architecture's."""
    return {
        "general.architecture": architecture,
        "general.name": name,
        f"{architecture}.context_length": 2048,
        f"{architecture}.embedding_length": 64,
        f"{architecture}.block_count": 2,
        f"{architecture}.attention.head_count": 4,
        f"{architecture}.attention.head_count_kv": 2,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": ["a", "b"],
        "tokenizer.chat_template": "{{ messages }}",
        **more,
    }


def model(*, num_values: int = 1024, architecture: str = "llama", name: str = "Tiny") -> bytes:
    """A whole small model of one tensor with `num_values` floats."""
    return whole(values(architecture=architecture, name=name), {"w": num_values})


def shards(count: int, **more: Value) -> list[bytes]:
    """A model in `count` files, one tensor each; only the first says what it is."""

    def split(no: int) -> dict[str, Value]:
        return {"split.no": no, "split.count": count, "split.tensors.count": count}

    first = whole(values() | split(0) | more, {"blk.0.w": 64})
    return [first, *(whole(split(no), {f"blk.{no}.w": 64}) for no in range(1, count))]
