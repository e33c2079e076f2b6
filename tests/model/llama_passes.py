"""How often llama.cpp really runs its graph, counted by the library itself."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import llama_cpp

LAST_NODE = b"result_output"  # the logits: one a graph


class PassCounter:
    """`num_passes`: graphs computed in contexts that were made under `counted`."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(Path(llama_cpp.__file__).parent / "lib" / "libggml-base.so"))
        self._name = library.ggml_get_name
        self._name.argtypes, self._name.restype = [ctypes.c_void_p], ctypes.c_char_p
        self.num_passes = 0
        self.callback: Any = llama_cpp.ggml_backend_sched_eval_callback(self._look)

    def _look(self, tensor: int, ask: bool, _data: Any) -> bool:
        if ask and self._name(tensor) == LAST_NODE:
            self.num_passes += 1
        return not ask  # no node's value is wanted; go on


@contextmanager
def counted() -> Iterator[PassCounter]:
    """Contexts made inside count their passes; keep the counter as long as they live."""
    counter = PassCounter()
    defaults = llama_cpp.llama_context_default_params

    def params() -> Any:
        made = defaults()
        made.cb_eval = counter.callback
        return made

    with mock.patch.object(llama_cpp, "llama_context_default_params", params):
        yield counter
