"""LoRA adapters of a model in llama.cpp."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import llama_cpp

from inference.engine.adapters import Adapter, Scales
from inference.engine.errors import BackendError
from inference.engine.llama_log import errors_heard
from inference.protocol.spec import AdapterSpec
from llamaweb.lib.errors import FailedError

# What llama.cpp says of a whole adapter that belongs to another model.
OTHER_MODEL = ("arch mismatch", "does not exist in base model", "incorrect shape")
META_LEN = 1024  # kept of a text


class LlamaAdapters:
    """Adapters by number, as requests name them. Load them before a context is made, which is laid
    out for as many; close them before the model."""

    def __init__(self, model: Any, specs: Sequence[AdapterSpec]) -> None:
        """Load the files of `specs`.

        Raises:
            FailedError: a file is missing, damaged, no adapter, or one of another model.
        """
        self._handles: list[Any] = []
        infos: list[Adapter] = []
        try:
            for spec in specs:
                infos.append(self._load(model, spec))
        except Exception:
            self.close()
            raise
        self.infos = tuple(infos)

    def use(self, context: Any, scales: Scales) -> None:
        """Batches of `context` are computed with these from now on."""
        num = len(scales)
        handles = (llama_cpp.llama_adapter_lora_p_ctypes * num)(
            *(self._handles[number] for number, _ in scales)
        )
        values = (ctypes.c_float * num)(*(scale for _, scale in scales))
        if llama_cpp.llama_set_adapters_lora(context, handles, num, values) != 0:
            raise BackendError("the adapters couldn't be set")

    def close(self) -> None:
        """Free them; may be called again."""
        while self._handles:
            llama_cpp.llama_adapter_lora_free(self._handles.pop())

    def _load(self, model: Any, spec: AdapterSpec) -> Adapter:
        path = Path(spec.path)
        try:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise FailedError(
                f"adapter file {path.name!r} doesn't exist or can't be read"
            ) from error
        with errors_heard() as errors:
            handle = llama_cpp.llama_adapter_lora_init(model, os.fsencode(path))
        if not handle:
            raise FailedError(_reason(path.name, errors))
        self._handles.append(handle)
        return Adapter(
            name=spec.name or path.stem,
            digest=digest,
            scale=spec.scale,
            task_name=_meta(handle, "adapter.lora.task_name"),
            prompt_prefix=_meta(handle, "adapter.lora.prompt_prefix"),
            invocation=_invocation(handle, model, path.name),
        )


def _reason(name: str, errors: Sequence[str]) -> str:
    said = next((line for line in errors for mark in OTHER_MODEL if mark in line), None)
    if said is None:
        return f"adapter file {name!r} is damaged, incomplete or not a LoRA adapter"
    detail = said.rpartition("lora adapter: ")[2].partition(" (hint")[0]
    return f"adapter file {name!r} was made for another model: {detail}"


def _meta(handle: Any, key: str) -> str:
    buffer = ctypes.create_string_buffer(META_LEN)
    num = llama_cpp.llama_adapter_meta_val_str(handle, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if num >= 0 else ""


def _invocation(handle: Any, model: Any, name: str) -> tuple[int, ...]:
    num = int(llama_cpp.llama_adapter_get_alora_n_invocation_tokens(handle))
    if not num:
        return ()
    tokens = tuple(llama_cpp.llama_adapter_get_alora_invocation_tokens(handle)[:num])
    vocab_len = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)))
    if not all(0 <= token < vocab_len for token in tokens):
        raise FailedError(
            f"adapter file {name!r} was made for another model: its invocation isn't of this "
            "vocabulary"
        )
    return tokens
