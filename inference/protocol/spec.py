"""What the supervisor tells an engine process on its standard input, once, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from inference.protocol.codec import DecodeError, from_plain, to_plain
from inference.protocol.vectors import EUCLIDEAN, PoolingChoice

DEFAULT_UBATCH_LEN = 512
EXIT_UNSERVABLE = 3  # of a child that can't serve the model as told: trying again won't help


@dataclass(frozen=True, slots=True)
class MockSpec:
    """Behaviour of the mock engine.

    `reply`: the scripted answer; "" echoes the last message. `delay_ms` a decode step,
    `prefill_ms_per_token` a prompt token, `load_ms` the load. `fail_after`: fail the sequence after
    that many tokens, a text to embed that has more. `crash_after`: die by `crash_signal` after that
    many tokens of this process (0: never). `only`: what it can do, "" for everything.
    """

    reply: str = ""
    load_ms: float = 0.0
    delay_ms: float = 0.0
    prefill_ms_per_token: float = 0.0
    fail_after: int = 0
    crash_after: int = 0
    crash_signal: str = "SIGILL"
    only: Literal["", "embedding", "reranking"] = ""


@dataclass(frozen=True, slots=True)
class UpstreamSpec:
    """The server that an engine of class "upstream" asks.

    `url`: what `/chat/completions` is put behind. `model`: its name there. `key`: sent as a bearer
    token, "" for none. `dialect` "llama_server": it takes that server's own fields too.
    `continues`: it goes on with a last message of the assistant instead of answering it.
    `idle_s`: its longest silence. `allow`: exempted hosts and networks that aren't public.
    """

    url: str = ""
    model: str = ""
    key: str = field(default="", repr=False)
    dialect: Literal["openai", "llama_server"] = "openai"
    continues: bool = False
    idle_s: float = 300.0
    allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """A LoRA adapter to load with the model. `scale`: for requests that choose none, 0: not in use
    by itself; `name` "": that of the file."""

    path: str
    scale: float = 1.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """How one engine process serves one model config.

    `engine_class`: llama, mock, upstream or a dotted path. `context_len` tokens per slot, 0 = the
    smaller of the model's and 8,192. `threads` 0 = cores - 1. `flash_attention` "auto", "on" or
    "off". `n_*` are handed to llama.cpp as they are. `redis_url` carries the engine's own
    credentials. `queue` holds `QueueConfig` fields that differ from their defaults.
    `chat_template`: overrides the model's own. `kv_unified`: slots share one pool of
    `pool_contexts` times `context_len` cells. `cache_type_k` and `cache_type_v`: how the KV cache
    holds numbers, see `cache_types`. `cache_ram_mib`: states of evicted sequences kept in memory,
    0 none. `context_shift`: a full context drops its older half instead of ending the answer.
    `verify_cache`: for finding mistakes, see `EngineConfig`. `trace_path`: write a Chrome trace
    there.
    `pooling`: how the vectors of a text's tokens become one, "auto": as the file says, else by
    their mean; "rank" needs a head in the file, which nobody looks for here. `vector_norm`: what
    vectors are divided by where a request says nothing, see `EmbedRequest.normalize`.
    `adapters`: numbered from 0 by requests. `special_tokens`: answers show the text of special
    tokens.
    `yields_cores`: compute with fewer threads while others need the cores.
    `parent_pid`: die when this process does.
    """

    model: str
    engine_id: str
    redis_url: str
    redis_prefix: str
    engine_class: str = "llama"
    model_path: str = ""
    num_slots: int = 4
    context_len: int = 0
    batch_len: int = 2048
    ubatch_len: int = DEFAULT_UBATCH_LEN
    step_target_ms: float = 200.0
    threads: int = 0
    yields_cores: bool = True
    flash_attention: str = "auto"
    use_extra_bufts: bool = True
    n_gpu_layers: int = 0
    load_mode: str = "auto"
    split_mode: str = "layer"
    main_gpu: int = 0
    tensor_split: tuple[float, ...] = ()
    adapters: tuple[AdapterSpec, ...] = ()
    special_tokens: bool = False
    pooling: PoolingChoice = "auto"
    vector_norm: int = EUCLIDEAN
    chat_template: str | None = None
    kv_unified: bool = False
    pool_contexts: int = 1
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    cache_ram_mib: int = 512
    context_shift: bool = False
    verify_cache: bool = False
    trace_path: str = ""
    mock: MockSpec = field(default_factory=MockSpec)
    upstream: UpstreamSpec = field(default_factory=UpstreamSpec)
    queue: tuple[tuple[str, float], ...] = ()
    parent_pid: int = 0


def encode_spec(spec: EngineSpec) -> str:
    """JSON text of a spec."""
    return json.dumps(to_plain(spec), allow_nan=False)


def decode_spec(text: str | bytes) -> EngineSpec:
    """The spec in `text`.

    Raises:
        DecodeError: not a spec.
    """
    try:
        data: Any = json.loads(text)
    except ValueError as error:
        raise DecodeError(str(error)) from error
    spec = from_plain(EngineSpec, data)
    assert isinstance(spec, EngineSpec)
    return spec
