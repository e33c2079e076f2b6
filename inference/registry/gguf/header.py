"""Reads the header of a GGUF file without loading it. The file is hostile until proven otherwise.

Nothing is believed: every count and length is compared with what is left of the file, all reading
has one budget, long lists are skipped and never kept, and of texts only short ones and the chat
templates are. Little-endian, versions 2 and 3, as llama.cpp writes them. Standard library only:
this runs in a child that has nothing else (`process`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from inference.registry.gguf.architectures import (
    DIFFUSION,
    DRAFTS,
    ENCODERS,
    PAIRED,
    SPEECH,
)
from inference.registry.gguf.cursor import Cursor
from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.facts import (
    POOLINGS,
    Adapter,
    Experts,
    GgufFacts,
    Kind,
    Pooling,
    Purpose,
    Rope,
    Split,
    Tokens,
    Weights,
)
from inference.registry.gguf.kinds import FILE_TYPES, GUESSED
from inference.registry.gguf.layers import Heads, Layers, read_layers
from inference.registry.gguf.pairs import Pairs, PairsReader
from inference.registry.gguf.tensors import TensorTable, read_tensors

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
START_BYTES: Final = 24
DEFAULT_ALIGNMENT: Final = 32
MAX_ALIGNMENT: Final = 65_536
MAX_SPLITS: Final = 1024
MODALITIES: Final = {"vision": "clip.has_vision_encoder", "audio": "clip.has_audio_encoder"}
TYPE_KINDS: Final[dict[str, Kind]] = {"mmproj": "mmproj", "projector": "mmproj"}
RANK_POOLING: Final = 4


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Facts that are kept, and the chat templates themselves by name ("" is the main one)."""

    facts: GgufFacts
    templates: dict[str, str]


def read_stream(descriptor: int, size: int) -> GgufHeader:
    """Read and check the header of the file of `size` bytes behind `descriptor`.

    Raises:
        GgufError: not a GGUF file, damaged or cut off; the message says where and why.
    """
    cursor = Cursor(descriptor, size)
    if size < START_BYTES or cursor.take(len(MAGIC)) != MAGIC:
        raise GgufError("this is not a GGUF file")
    version = cursor.u32()
    if version not in VERSIONS:
        is_swapped = version & 0xFFFF == 0
        hint = " (it is written for big-endian machines)" if is_swapped else ""
        raise GgufError(f"GGUF version {version} can't be read{hint}; 2 and 3 can")
    num_tensors, num_pairs = cursor.u64(), cursor.u64()
    pairs = PairsReader(cursor).read(num_pairs)
    split = _split(pairs)
    architecture = pairs.text("general.architecture")
    if not architecture and not split.no:
        raise GgufError("the file names no architecture (general.architecture)")
    table = read_tensors(cursor, num_tensors, alignment=_alignment(pairs), size=size)
    facts = _facts(pairs, table, architecture=architecture, split=split, file=(version, size))
    return GgufHeader(facts, pairs.templates)


def _facts(
    pairs: Pairs, table: TensorTable, *, architecture: str, split: Split, file: tuple[int, int]
) -> GgufFacts:
    def whole(name: str) -> int:
        return pairs.whole(f"{architecture}.{name}")

    kind = _kind(pairs, table, architecture, split)
    heads, layers = Heads(), Layers()
    if kind in ("model", "draft", "vocabulary"):
        heads, layers = read_layers(pairs, architecture)
    return GgufFacts(
        kind=kind,
        version=file[0],
        size=file[1],
        architecture=architecture,
        purpose=_purpose(pairs, architecture) if kind == "model" else "",
        name=pairs.text("general.name"),
        size_label=pairs.text("general.size_label"),
        quantization=_quantization(pairs, table),
        context_len=whole("context_length"),
        embedding_len=whole("embedding_length"),
        feed_forward_len=whole("expert_feed_forward_length") or whole("feed_forward_length"),
        heads=heads,
        layers=layers,
        experts=Experts(
            whole("expert_count"), whole("expert_used_count"), whole("expert_shared_count")
        ),
        rope=_rope(pairs, architecture),
        tokens=_tokens(pairs),
        weights=_weights(table, max(table.layer_bytes, default=-1) + 1),
        split=split,
        adapter=Adapter(pairs.text("adapter.type"), pairs.number("adapter.lora.alpha")),
        pooling=_pooling(pairs, architecture),
        modalities=tuple(name for name, key in MODALITIES.items() if pairs.flag(key)),
        templates=tuple(sorted(pairs.templates)),
    )


def _kind(pairs: Pairs, table: TensorTable, architecture: str, split: Split) -> Kind:
    said = pairs.text("general.type").lower()
    if split.no:
        return "shard"
    if said == "adapter" or "adapter.type" in pairs:
        return "adapter"
    if architecture == "clip" or said in TYPE_KINDS:
        return "mmproj"
    num_layers = pairs.whole(f"{architecture}.block_count")
    num_next = pairs.whole(f"{architecture}.nextn_predict_layers")
    if architecture in DRAFTS or 0 < num_layers <= num_next:
        return "draft"
    if said not in ("", "model") or architecture in ("imatrix", "controlvector"):
        return "other"
    return "model" if table.num_tensors or split.count > 1 else "vocabulary"


def _purpose(pairs: Pairs, architecture: str) -> Purpose:
    pooling = pairs.whole(f"{architecture}.pooling_type")
    if pooling == RANK_POOLING or pairs.count(f"{architecture}.classifier.output_labels"):
        return "reranking"
    if architecture in DIFFUSION:
        return "diffusion"
    if architecture in SPEECH:
        return "speech"
    if architecture in PAIRED:
        return "paired"
    is_causal = pairs.flag(f"{architecture}.attention.causal", True)
    return "embedding" if architecture in ENCODERS or pooling or not is_causal else "text"


def _pooling(pairs: Pairs, architecture: str) -> Pooling:
    number = pairs.whole(f"{architecture}.pooling_type", len(POOLINGS))
    return POOLINGS[number] if number < len(POOLINGS) else ""


def _quantization(pairs: Pairs, table: TensorTable) -> str:
    if "general.file_type" not in pairs:
        return table.main_kind
    return FILE_TYPES.get(pairs.whole("general.file_type") & ~GUESSED, table.main_kind)


def _rope(pairs: Pairs, architecture: str) -> Rope:
    prefix = f"{architecture}.rope."
    if not any(key.startswith(prefix) for key in pairs):
        return Rope()
    return Rope(
        kind="mrope" if pairs.is_list(prefix + "dimension_sections") else "rope",
        scaling=pairs.text(prefix + "scaling.type"),
        factor=pairs.number(prefix + "scaling.factor"),
        base=pairs.number(prefix + "freq_base"),
    )


def _tokens(pairs: Pairs) -> Tokens:
    prefix = "tokenizer.ggml."
    return Tokens(
        model=pairs.text(prefix + "model"),
        pre=pairs.text(prefix + "pre"),
        num=pairs.count(prefix + "tokens"),
        num_merges=pairs.count(prefix + "merges"),
    )


def _weights(table: TensorTable, num_layers: int) -> Weights:
    return Weights(
        num_tensors=table.num_tensors,
        num_params=table.num_params,
        main_kind=table.main_kind,
        layer_bytes=tuple(table.layer_bytes[layer] for layer in range(num_layers)),
        input_bytes=table.input_bytes,
        output_bytes=table.output_bytes,
        other_bytes=table.other_bytes,
    )


def _split(pairs: Pairs) -> Split:
    split = Split(
        no=pairs.whole("split.no"),
        count=max(1, pairs.whole("split.count", 1)),
        num_tensors=pairs.whole("split.tensors.count"),
    )
    if split.count > MAX_SPLITS or split.no >= split.count:
        raise GgufError(f"split.no {split.no:,} of split.count {split.count:,} can't be")
    return split


def _alignment(pairs: Pairs) -> int:
    if "general.alignment" not in pairs:
        return DEFAULT_ALIGNMENT
    value = pairs.whole("general.alignment")
    if not 0 < value <= MAX_ALIGNMENT or value & (value - 1):
        raise GgufError(f"general.alignment has to be a power of two, up to {MAX_ALIGNMENT:,}")
    return value
