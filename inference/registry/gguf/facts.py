"""What a GGUF file says of itself, as plain values that a row can keep."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from inference.registry.gguf.layers import Heads, Layers

Kind: TypeAlias = Literal["model", "shard", "mmproj", "draft", "adapter", "vocabulary", "other"]
Purpose: TypeAlias = Literal["text", "embedding", "reranking", "diffusion", "speech", "paired", ""]
Pooling: TypeAlias = Literal["", "none", "mean", "cls", "last", "rank"]
POOLINGS: Final[tuple[Pooling, ...]] = ("none", "mean", "cls", "last", "rank")


@dataclass(frozen=True, slots=True)
class Split:
    """The part of a model in several files that this one is. `no`: from 0."""

    no: int = 0
    count: int = 1
    num_tensors: int = 0


@dataclass(frozen=True, slots=True)
class Experts:
    """Of a mixture: how many there are, how many a token uses, and how many it always does."""

    num: int = 0
    num_used: int = 0
    num_shared: int = 0


@dataclass(frozen=True, slots=True)
class Rope:
    """How positions are told: "none", "rope" or "mrope" (by sections), and what stretches them."""

    kind: str = "none"
    scaling: str = ""
    factor: float = 0.0
    base: float = 0.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokenizer's model, and how many tokens and merges it has."""

    model: str = ""
    pre: str = ""
    num: int = 0
    num_merges: int = 0


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of tensors: of each layer, of the token embeddings, of the output matrix (0: the
    embeddings serve for it), and of the rest. `main_kind`: the type of most parameters."""

    num_tensors: int = 0
    num_params: int = 0
    main_kind: str = ""
    layer_bytes: tuple[int, ...] = ()
    input_bytes: int = 0
    output_bytes: int = 0
    other_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Adapter:
    """A change to another model: its kind ("lora") and strength."""

    kind: str = ""
    alpha: float = 0.0


@dataclass(frozen=True, slots=True)
class GgufFacts:
    """Numbers are 0 and texts "" where the file doesn't say; lengths are in tokens.

    `kind`: what the file is; `purpose`: what a model of it can do. `quantization` as the field
    names it (Q4_K_M). `feed_forward_len`: numbers between the matrices of a layer, of one expert
    in a mixture. `modalities`: what an mmproj reads besides text. `templates`: names of the chat
    templates, "" the main one.
    """

    kind: Kind
    version: int
    size: int
    architecture: str = ""
    purpose: Purpose = ""
    name: str = ""
    size_label: str = ""
    quantization: str = ""
    context_len: int = 0
    embedding_len: int = 0
    feed_forward_len: int = 0
    heads: Heads = field(default_factory=Heads)
    layers: Layers = field(default_factory=Layers)
    experts: Experts = field(default_factory=Experts)
    rope: Rope = field(default_factory=Rope)
    tokens: Tokens = field(default_factory=Tokens)
    weights: Weights = field(default_factory=Weights)
    split: Split = field(default_factory=Split)
    adapter: Adapter = field(default_factory=Adapter)
    pooling: Pooling = ""
    modalities: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()

    @property
    def num_layers(self) -> int:
        """Layers of the model."""
        return len(self.layers.keys)

    @property
    def bits_per_weight(self) -> float:
        """On average."""
        w = self.weights
        num_bytes = sum(w.layer_bytes) + w.input_bytes + w.output_bytes + w.other_bytes
        return num_bytes * 8 / w.num_params if w.num_params else 0.0


def facts_to_plain(facts: GgufFacts) -> dict[str, Any]:
    """JSON-ready values."""
    return dataclasses.asdict(facts)


def facts_from_plain(data: Any) -> GgufFacts | None:
    """What `facts_to_plain` made, by this version or one close to it; None for anything else."""
    if not isinstance(data, dict) or data.get("kind") not in get_args(Kind):
        return None
    if not isinstance(data.get("size"), int) or not isinstance(data.get("version"), int):
        return None
    found = _record(GgufFacts, data)
    assert isinstance(found, GgufFacts)
    return found


_RECORDS: Final = {
    "heads": Heads, "layers": Layers, "experts": Experts, "rope": Rope, "tokens": Tokens,
    "weights": Weights, "split": Split, "adapter": Adapter,
}  # fmt: skip


def _record(kind: type[Any], data: dict[str, Any]) -> Any:
    """What of `data` a record has fields for; lists become tuples."""
    values: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        value = data.get(item.name)
        if item.name in _RECORDS and isinstance(value, dict):
            values[item.name] = _record(_RECORDS[item.name], value)
        elif isinstance(value, list | tuple):
            values[item.name] = tuple(value)
        elif value is not None and not isinstance(value, dict):
            values[item.name] = value
    return kind(**values)
