"""GGUF files written by the tests: small, and as hostile as asked for."""

from __future__ import annotations

import struct

U32, F32, STRING, ARRAY, U64 = 4, 6, 8, 9, 10


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: str, dims: tuple[int, ...], kind: int, offset: int) -> bytes:
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


def model(*, num_values: int = 1024, architecture: str = "llama", name: str = "Tiny") -> bytes:
    """A whole small model of one tensor with `num_values` floats."""
    pairs = [
        pair("general.architecture", STRING, text(architecture)),
        pair("general.name", STRING, text(name)),
        pair(f"{architecture}.context_length", U32, struct.pack("<I", 2048)),
        pair("tokenizer.chat_template", STRING, text("{{ messages }}")),
        pair("tokenizer.ggml.tokens", ARRAY, struct.pack("<IQ", STRING, 2) + text("a") + text("b")),
        pair("tokenizer.ggml.scores", ARRAY, struct.pack("<IQ2f", F32, 2, 0.5, 0.25)),
    ]
    head = header(pairs, [tensor("w", (num_values,), 0, 0)])
    padding = b"\0" * (-len(head) % 32)
    body = bytes(range(256)) * (num_values * 4 // 256 + 1)
    return head + padding + body[: num_values * 4]
