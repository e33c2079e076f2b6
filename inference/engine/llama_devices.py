"""The devices that llama.cpp finds here, and how much memory they have."""

from __future__ import annotations

import ctypes
from typing import Any

from llama_cpp._ggml import libggml

from inference.engine.llama_load import init_library
from inference.protocol.devices import Device, DeviceKind

# ggml's types of devices: 0 the CPU, 3 and 4 what helps it or stands for several.
KINDS: dict[int, DeviceKind] = {1: "gpu", 2: "integrated"}


def list_devices() -> tuple[Device, ...]:
    """All of them, in llama.cpp's order. Whatever a GPU's driver keeps for a process that has asked
    is kept until the process ends."""
    init_library()
    count = _function("ggml_backend_dev_count", ctypes.c_size_t)
    get = _function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    return tuple(_device(get(index)) for index in range(count()))


def _device(handle: int) -> Device:
    text = [
        _function(f"ggml_backend_dev_{name}", ctypes.c_char_p, ctypes.c_void_p)(handle)
        for name in ("name", "description")
    ]
    name, title = ((value or b"").decode("utf-8", "replace") for value in text)
    kind = _function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)(handle)
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    size_ptr = ctypes.POINTER(ctypes.c_size_t)
    memory = _function("ggml_backend_dev_memory", None, ctypes.c_void_p, size_ptr, size_ptr)
    memory(handle, ctypes.byref(free), ctypes.byref(total))
    return Device(name, title, KINDS.get(kind, "other"), free.value, total.value)


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """One of ggml's, which the bindings leave out."""
    function = getattr(libggml, name)
    function.restype, function.argtypes = result, arguments
    return function
