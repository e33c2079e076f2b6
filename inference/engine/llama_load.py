"""Loading a GGUF and making its context, with messages a person can act on."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import logging
import os
from pathlib import Path
from typing import Any

import llama_cpp

from inference.engine.llama_log import quiet_log
from inference.engine.loading import LoadStoppedError, OnLoad, go_on
from inference.engine.model_file import file_digest
from inference.protocol.cache_types import (
    BLOCK_LEN,
    CACHE_TYPES,
    QUANTISED,
    check_cache_types,
    needs_flash_attention,
)
from inference.protocol.load_options import check_load_options
from inference.protocol.spec import EngineSpec
from llamaweb.lib.cpus import num_cores
from llamaweb.lib.errors import FailedError, InvalidError

logger = logging.getLogger(__name__)

DEFAULT_CONTEXT_LEN = 8192
# On CPUs flash attention costs models with small heads more than it saves (measured: 64 slower,
# 256 not). This is where a calibration begins, and what holds without one. No engine chooses by a
# timing of its own: another kernel rounds differently, and an answer that moves to another engine
# must go on with the same text. So the supervisor measures once and tells all of them.
FLASH_MIN_HEAD_LEN = 128
GGML_TYPE_BF16 = 30  # of ggml.h; the bindings leave it out
CACHE_GGML_TYPES = {"bf16": GGML_TYPE_BF16} | {
    name: int(getattr(llama_cpp, f"GGML_TYPE_{name.upper()}"))
    for name in CACHE_TYPES
    if name != "bf16"
}
LOAD_MODES = {
    "auto": llama_cpp.LLAMA_LOAD_MODE_AUTO,
    "read": llama_cpp.LLAMA_LOAD_MODE_NONE,
    "map": llama_cpp.LLAMA_LOAD_MODE_MMAP,
    "lock": llama_cpp.LLAMA_LOAD_MODE_MLOCK,
    "map_lock": llama_cpp.LLAMA_LOAD_MODE_MMAP_MLOCK,
    "direct": llama_cpp.LLAMA_LOAD_MODE_DIRECT_IO,
}
SPLIT_MODES = {
    "layer": llama_cpp.LLAMA_SPLIT_MODE_LAYER,
    "row": llama_cpp.LLAMA_SPLIT_MODE_ROW,
    "tensor": llama_cpp.LLAMA_SPLIT_MODE_TENSOR,
    "none": llama_cpp.LLAMA_SPLIT_MODE_NONE,
}
FLASH_TYPES = {
    "auto": llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}


@functools.cache
def init_library() -> None:
    """Once a process: log callback, then the backends."""
    quiet_log()
    llama_cpp.llama_backend_init()


def load_model(spec: EngineSpec, on_load: OnLoad = go_on) -> Any:
    """The model of `spec.model_path`; free it with llama_model_free.

    `on_load` is called between tensors. In the main thread that is when signals are handled, too.
    What it raises ends the load and is raised here.

    Raises:
        FailedError: missing, unreadable, corrupt, or a kind that can't generate.
        InvalidError: settings that can't be.
        LoadStoppedError: `on_load` said so.
    """
    path = Path(spec.model_path)
    if not path.is_file():
        raise FailedError(f"model file {path.name!r} doesn't exist or can't be read")
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = spec.n_gpu_layers
    check_load_options(load_mode=spec.load_mode, split_mode=spec.split_mode)
    if spec.split_mode == "tensor" and not llama_cpp.llama_supports_gpu_offload():
        raise InvalidError("split_mode tensor needs a GPU", param="split_mode")
    params.load_mode = LOAD_MODES[spec.load_mode]
    params.split_mode = SPLIT_MODES[spec.split_mode]
    params.main_gpu = spec.main_gpu
    params.use_extra_bufts = spec.use_extra_bufts
    if spec.tensor_split:
        params.tensor_split = _tensor_split(spec.tensor_split)
    is_wanted = True
    raised: BaseException | None = None

    def tell(share: float, _: object) -> bool:
        nonlocal is_wanted, raised
        try:
            is_wanted = is_wanted and on_load(share)
        except BaseException as error:  # C hears of none: kept until the library has returned
            is_wanted, raised = False, error
        return is_wanted

    params.progress_callback = llama_cpp.llama_progress_callback(tell)
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if not is_wanted:
        if model:
            llama_cpp.llama_model_free(model)
        raise raised or LoadStoppedError
    if not model:
        raise FailedError(
            f"model file {path.name!r} is damaged, incomplete or of a kind that isn't known here"
        )
    if llama_cpp.llama_model_has_encoder(model) or not llama_cpp.llama_model_has_decoder(model):
        llama_cpp.llama_model_free(model)
        raise FailedError(f"model file {path.name!r} holds a model that can't generate text alone")
    return model


def make_context(model: Any, spec: EngineSpec) -> Any:
    """A context with one KV stream a slot, or one pool for all; free it with llama_free.

    Raises:
        FailedError: not enough memory, or settings this model can't have together.
    """
    params = llama_cpp.llama_context_default_params()
    # Unified: one pool of cells that all slots share.
    contexts = spec.pool_contexts if spec.kv_unified else spec.num_slots
    params.n_ctx = context_len(model, spec) * contexts
    params.n_batch = spec.batch_len
    params.n_ubatch = min(spec.ubatch_len, spec.batch_len)
    params.n_seq_max = spec.num_slots
    params.n_outputs_max = spec.num_slots  # the default keeps n_batch rows of logits
    params.n_threads = params.n_threads_batch = num_threads(spec)
    params.flash_attn_type = flash_type(model, spec)
    params.type_k, params.type_v = _cache_types(model, spec)
    params.kv_unified = spec.kv_unified
    params.swa_full = True  # else a sliding window forgets what the prompt cache wants to reuse
    params.no_perf = True
    context = llama_cpp.llama_init_from_model(model, params)
    if not context:
        raise FailedError(
            f"no context of {params.n_ctx} tokens for {spec.num_slots} slots could be made; "
            "a smaller context_len, fewer slots or smaller cache types need less memory"
        )
    return context


def context_len(model: Any, spec: EngineSpec) -> int:
    """Tokens a slot; never more than the model was trained for."""
    trained = int(llama_cpp.llama_model_n_ctx_train(model))
    if spec.context_len > trained:
        logger.warning("context_len %d is cut to the model's %d", spec.context_len, trained)
    return min(spec.context_len or DEFAULT_CONTEXT_LEN, trained)


def fingerprint(model: Any, spec: EngineSpec) -> str:
    """Names what the KV of this model in this process depends on, for the prompt cache's key."""
    digest = hashlib.sha256(llama_cpp.llama_print_system_info())
    parts = (
        file_digest(Path(spec.model_path)),
        importlib.metadata.version("llama_cpp_python"),
        spec.kv_unified,
        flash_type(model, spec),
        _cache_types(model, spec),
        int(llama_cpp.llama_model_rope_type(model)),
    )
    digest.update(repr(parts).encode())
    return digest.hexdigest()


def num_threads(spec: EngineSpec) -> int:
    """Threads of a decode: one core is left to everything else, because ours spin."""
    return spec.threads or max(1, num_cores() - 1)


def metadata(model: Any, key: str) -> str | None:
    """One value of the GGUF header as text."""
    buffer = ctypes.create_string_buffer(256)
    num = llama_cpp.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if num >= 0 else None


def default_flash(model: Any, spec: EngineSpec) -> str:
    """What flash_attention "auto" means without a measurement: "on", "off", or "auto" where
    llama.cpp is to decide."""
    if needs_flash_attention(spec.cache_type_v):
        return "on"
    on_gpu = spec.n_gpu_layers != 0 and llama_cpp.llama_supports_gpu_offload()
    if not on_gpu and _head_len(model) < FLASH_MIN_HEAD_LEN:
        return "off"
    return "auto"


def flash_type(model: Any, spec: EngineSpec) -> int:
    """llama.cpp's number for `spec.flash_attention`.

    Raises:
        InvalidError: it is none of the three.
    """
    if spec.flash_attention not in FLASH_TYPES:
        raise InvalidError("flash_attention is auto, on or off", param="flash_attention")
    is_open = spec.flash_attention == "auto"
    return FLASH_TYPES[default_flash(model, spec) if is_open else spec.flash_attention]


def _cache_types(model: Any, spec: EngineSpec) -> tuple[int, int]:
    """ggml's types of keys and values."""
    names = {"cache_type_k": spec.cache_type_k, "cache_type_v": spec.cache_type_v}
    check_cache_types(**names, flash_attention=spec.flash_attention)
    for param, name in names.items():
        if name in QUANTISED and _head_len(model) % BLOCK_LEN:
            raise InvalidError(
                f"{param} {name} needs attention heads of a multiple of {BLOCK_LEN}, this model's "
                f"have {_head_len(model)}",
                param=param,
            )
    return CACHE_GGML_TYPES[spec.cache_type_k], CACHE_GGML_TYPES[spec.cache_type_v]


def _head_len(model: Any) -> int:
    architecture = metadata(model, "general.architecture") or ""
    stated = metadata(model, f"{architecture}.attention.key_length")
    if stated and stated.isdigit():
        return int(stated)
    num_heads = max(1, int(llama_cpp.llama_model_n_head(model)))
    return int(llama_cpp.llama_model_n_embd(model)) // num_heads


def _tensor_split(shares: tuple[float, ...]) -> Any:
    most = int(llama_cpp.llama_max_devices())
    if len(shares) > most:
        raise InvalidError(f"tensor_split has more than {most} parts", param="tensor_split")
    return (ctypes.c_float * most)(*shares)
