"""What a model will need of memory, told from its header and how it is to be served. Pure.

Weights, keys and values and states are counted as llama.cpp allocates them. Buffers of computing
follow the shapes of its graphs: the largest of attention, feed-forward and output of one
micro-batch. What the vocabulary and the process take was measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from inference.protocol.cache_types import needs_flash_attention
from inference.registry.gguf.architectures import ENCODERS
from inference.registry.gguf.facts import GgufFacts
from inference.registry.gguf.kinds import row_bytes

DEFAULT_CONTEXT_LEN: Final = 8192  # these three as inference.engine.llama_load has them
FLASH_MIN_HEAD_LEN: Final = 128
SWA_FULL: Final = True
MAX_STATES: Final = 4  # these three as inference.engine.llama_embedding has them
DEFAULT_TEXT_LEN: Final = 2048
DEFAULT_OUTPUT_BYTES: Final = 512 * 1024 * 1024
CELLS_PAD: Final = 256
FLOAT_BYTES: Final = 4
TOKEN_BYTES, MERGE_BYTES = 120, 130  # of a vocabulary, in tables by text and by number
PROCESS_BYTES: Final = 64 * 1024 * 1024  # Python, numpy, llama.cpp and what they import

PartName: TypeAlias = Literal[
    "weights", "kv", "state", "compute", "output", "vocabulary", "adapters", "process", "cache",
    "vectors",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Serving:
    """How a model is to be served, as far as memory goes; as in `EngineSpec`.

    `context_len`: tokens a slot, 0 as there. `gpu_layers`: -1 for all. `adapter_bytes`: of files
    loaded beside it. `cache_bytes`: the bound of the prompt cache in host memory. `pooling` as in
    `ModelConfig`.
    """

    num_slots: int = 4
    context_len: int = 0
    ubatch_len: int = 512
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    kv_unified: bool = False
    pool_contexts: int = 1
    flash_attention: str = "auto"
    swa_full: bool = SWA_FULL
    gpu_layers: int = 0
    adapter_bytes: int = 0
    cache_bytes: int = 0
    pooling: str = "auto"


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes that something takes in host memory and on devices."""

    name: PartName
    host: int = 0
    device: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """All parts. `num_cells`: tokens that one stream has room for."""

    parts: tuple[Part, ...]
    num_cells: int

    @property
    def host_bytes(self) -> int:
        """Of host memory, at most: with a full prompt cache, and asked for vectors."""
        return sum(part.host for part in self.parts)

    @property
    def loaded_bytes(self) -> int:
        """Of host memory, before the prompt cache holds anything and vectors were asked for."""
        return self.host_bytes - self.part("cache").host - self.part("vectors").host

    @property
    def device_bytes(self) -> int:
        """Of all devices together."""
        return sum(part.device for part in self.parts)

    def part(self, name: PartName) -> Part:
        """One of them."""
        return next((part for part in self.parts if part.name == name), Part(name))


def estimate(facts: GgufFacts, serving: Serving) -> Estimate:
    """What an engine will need. `facts`: of all shards together."""
    if facts.purpose in ("embedding", "reranking"):
        return _of_vectors(facts, serving)
    return _of_answers(facts, serving)


def pooling_of(chosen: str, purpose: str) -> str:
    """What an engine is told for what the administrator has `chosen`: some files have a head for
    scores, and don't say that it is to be used."""
    return "rank" if chosen == "auto" and purpose == "reranking" else chosen


def text_len(facts: GgufFacts, serving: Serving) -> int:
    """Tokens that a model made for vectors computes at once: its longest text."""
    fitting = DEFAULT_OUTPUT_BYTES // (FLOAT_BYTES * max(1, facts.tokens.num))
    wanted = serving.context_len or min(DEFAULT_TEXT_LEN, fitting)
    return max(serving.ubatch_len, min(wanted, facts.context_len or wanted))


def _of_vectors(facts: GgufFacts, serving: Serving) -> Estimate:
    """Of a model that writes no answers: it has the context for vectors only."""
    first = _first_on_device(facts, serving)
    tokens = facts.tokens
    length, held = _text_lens(facts, serving, text_len(facts, serving))
    return Estimate(
        parts=(
            _weights(facts, first),
            *_vector_parts(facts, serving, length, held),
            Part("vocabulary", tokens.num * TOKEN_BYTES + tokens.num_merges * MERGE_BYTES),
            Part("process", PROCESS_BYTES),
        ),
        num_cells=held,
    )


def _text_lens(facts: GgufFacts, serving: Serving, length: int) -> tuple[int, int]:
    """Tokens that are computed at once, and that the context holds; `length`: both, as long as a
    text has to come whole."""
    chosen = pooling_of(serving.pooling, facts.purpose)
    pooling = facts.pooling if chosen == "auto" else chosen
    if pooling not in ("last", "rank") or facts.architecture in ENCODERS:
        return length, length
    # Its last token has seen all others: longer texts come in pieces.
    return serving.ubatch_len, num_cells(facts, replace(serving, kv_unified=False))


def _second_context(facts: GgufFacts, serving: Serving) -> Part:
    """What a model that writes answers takes more when it is first asked for vectors."""
    length, held = _text_lens(facts, serving, serving.ubatch_len)
    parts = _vector_parts(facts, serving, length, held)
    states = sum(facts.layers.state) * FLOAT_BYTES * MAX_STATES
    return Part(
        "vectors",
        states + sum(part.host for part in parts),
        sum(part.device for part in parts),
    )


def _vector_parts(facts: GgufFacts, serving: Serving, length: int, held: int) -> tuple[Part, ...]:
    """Of a context of `held` tokens that computes `length` at once, each with a row of results."""
    one = replace(
        serving, num_slots=1, context_len=held, kv_unified=False, cache_type_k="f16",
        cache_type_v="f16", ubatch_len=length,
    )  # fmt: skip
    cells = _padded(held)
    kv = 0 if facts.architecture in ENCODERS else sum(kv_bytes(facts, one))
    # All rows are results, in the graph and behind it; only encoders know no vocabulary at its end.
    compute = _compute_bytes(facts, one, cells, 0 if facts.architecture in ENCODERS else length)
    output = length * (facts.tokens.num + facts.embedding_len) * FLOAT_BYTES
    is_on_device = _first_on_device(facts, serving) <= facts.num_layers
    return (
        Part("kv", 0, kv) if is_on_device else Part("kv", kv),
        Part("compute", 0, compute) if is_on_device else Part("compute", compute),
        Part("output", output),
    )


def _of_answers(facts: GgufFacts, serving: Serving) -> Estimate:
    cells = num_cells(facts, serving)
    first = _first_on_device(facts, serving)
    uses_device = first <= facts.num_layers
    compute = _compute_bytes(facts, serving, cells, serving.num_slots)
    kv = kv_bytes(facts, serving)
    state = [n * FLOAT_BYTES * max(1, serving.num_slots) for n in facts.layers.state]
    tokens = facts.tokens
    return Estimate(
        parts=(
            _weights(facts, first),
            Part("kv", sum(kv[:first]), sum(kv[first:])),
            Part("state", sum(state[:first]), sum(state[first:])),
            Part("compute", 0 if uses_device else compute, compute if uses_device else 0),
            Part("output", tokens.num * serving.num_slots * FLOAT_BYTES),
            Part("vocabulary", tokens.num * TOKEN_BYTES + tokens.num_merges * MERGE_BYTES),
            Part("adapters", serving.adapter_bytes),
            Part("process", PROCESS_BYTES),
            Part("cache", serving.cache_bytes),
            _second_context(facts, serving),
        ),
        num_cells=cells,
    )


def num_cells(facts: GgufFacts, serving: Serving) -> int:
    """Tokens that a stream has room for: a slot's, or all slots' in one pool."""
    context_len = serving.context_len or DEFAULT_CONTEXT_LEN
    if facts.context_len:
        context_len = min(context_len, facts.context_len)
    return _padded(context_len * (serving.pool_contexts if serving.kv_unified else 1))


def kv_bytes(facts: GgufFacts, serving: Serving) -> list[int]:
    """Bytes of keys and values, layer by layer, of all streams."""
    layers, cells = facts.layers, num_cells(facts, serving)
    sharing = serving.num_slots if serving.kv_unified else 1
    window = _padded(facts.heads.window_len * sharing + serving.ubatch_len)
    seen = cells if serving.swa_full else min(cells, window)
    # Without flash attention values lie transposed, in rows of one length for all layers.
    is_flash = uses_flash(facts, serving)
    found = []
    for layer, keys in enumerate(layers.keys):
        values = layers.values[layer]
        width = values if is_flash or not values else layers.max_values
        row = row_bytes(serving.cache_type_k, keys) + row_bytes(serving.cache_type_v, width)
        held = seen if layers.is_windowed[layer] else cells
        found.append(row * held * (serving.num_slots // sharing))
    return found


def uses_flash(facts: GgufFacts, serving: Serving) -> bool:
    """Whether attention is computed in one piece, where nobody has measured or decided."""
    if serving.flash_attention != "auto":
        return serving.flash_attention == "on"
    if needs_flash_attention(serving.cache_type_v) or serving.gpu_layers:
        return True
    return facts.heads.key_len >= FLASH_MIN_HEAD_LEN


def _first_on_device(facts: GgufFacts, serving: Serving) -> int:
    """The first layer on a device; the output counts as the one behind the last."""
    wanted = facts.num_layers + 1 if serving.gpu_layers < 0 else serving.gpu_layers
    return max(0, facts.num_layers + 1 - wanted)


def _weights(facts: GgufFacts, first: int) -> Part:
    """The mapped file; what goes to a device isn't kept."""
    weights = facts.weights
    device = sum(weights.layer_bytes[first:])
    if first <= facts.num_layers:
        device += weights.output_bytes
    host = facts.size - device
    if first <= facts.num_layers and not weights.output_bytes:
        device += weights.input_bytes  # a second copy of the embeddings, as output
    return Part("weights", host, device)


def _compute_bytes(facts: GgufFacts, serving: Serving, cells: int, num_results: int) -> int:
    """Of one micro-batch: scores and masks over all cells, a layer's widest numbers, or results."""
    heads, layers = facts.heads, facts.layers
    is_flash = uses_flash(facts, serving)
    width = facts.embedding_len
    query = heads.num * heads.key_len
    held = max(layers.keys, default=0) + max(layers.values, default=0)
    num_masks = len(set(layers.is_windowed)) if any(layers.keys) else 0
    masks = num_masks * cells * (FLOAT_BYTES // 2 if is_flash else FLOAT_BYTES)
    scores = 0 if is_flash or not num_masks else heads.num * cells * FLOAT_BYTES
    attention = scores + (3 * query + width + 5 * held // 2) * FLOAT_BYTES
    inner = facts.feed_forward_len * max(1, facts.experts.num_used + facts.experts.num_shared)
    forward = (3 * inner + (4 + facts.experts.num_used) * width) * FLOAT_BYTES
    output = facts.tokens.num * num_results * FLOAT_BYTES
    return max(serving.ubatch_len * (masks + max(attention, forward)), output)


def _padded(num: int) -> int:
    return -(-num // CELLS_PAD) * CELLS_PAD
