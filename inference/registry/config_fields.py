"""The fields of a model that a form may change."""

from __future__ import annotations

from inference.registry.chat_checks import CHAT_FIELDS

# How the machine is used.
MACHINE_FIELDS = (
    "threads",
    "flash_attention",
    "kv_layout",
    "ubatch_len",
    "cache_type_k",
    "cache_type_v",
    "load_mode",
    "gpu_layers",
    "split_mode",
    "main_gpu",
    "tensor_split",
)
VECTOR_FIELDS = ("pooling", "vector_norm")
FIELDS = (
    "name",
    "is_enabled",
    "num_slots",
    "context_len",
    *MACHINE_FIELDS,
    "chat_template",
    "special_tokens",
    *VECTOR_FIELDS,
    "adapters",
    "aliases",
    "tags",
    "sampling",
    *CHAT_FIELDS,
)
# Of these, what no engine knows.
CALLERS_FIELDS = frozenset({"aliases", "tags", "sampling", *CHAT_FIELDS})
