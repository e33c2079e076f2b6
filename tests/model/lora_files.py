"""LoRA adapters written by the tests, as GGUF files: random matrices for a real model."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from tests.registry.gguf_files import ARRAY, F32, STRING, U32, header, pair, tensor, text

EMBED_LEN = 576  # of the starter model
NUM_BLOCKS = 30
RANK = 4


def write_adapter(
    path: Path,
    *,
    seed: int = 1,
    strength: float = 0.15,
    architecture: str = "llama",
    embed_len: int = EMBED_LEN,
    kind: str = "adapter",
    invocation: tuple[int, ...] = (),
) -> Path:
    """An adapter of what every block's attention puts out; the same seed gives the same file."""
    random = np.random.default_rng(seed)
    pairs = [
        pair("general.type", STRING, text(kind)),
        pair("general.architecture", STRING, text(architecture)),
        pair("adapter.type", STRING, text("lora")),
        pair("adapter.lora.alpha", F32, struct.pack("<f", RANK)),
        pair("adapter.lora.task_name", STRING, text("rhymes")),
    ]
    if invocation:
        ids = struct.pack(f"<IQ{len(invocation)}I", U32, len(invocation), *invocation)
        pairs.append(pair("adapter.alora.invocation_tokens", ARRAY, ids))
    tensors, data = [], b""
    for block in range(NUM_BLOCKS):
        for part, dims in (("a", (embed_len, RANK)), ("b", (RANK, embed_len))):
            values = (random.standard_normal(dims) * strength).astype(np.float32).tobytes()
            tensors.append(
                tensor(f"blk.{block}.attn_output.weight.lora_{part}", dims, 0, len(data))
            )
            data += values + b"\0" * (-len(values) % 32)
    head = header(pairs, tensors)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + data)
    return path
