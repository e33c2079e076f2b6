"""The second model in a quantisation that every kernel of a CPU rounds alike.

Of the types in the file as it comes some are computed by other kernels for one row than for many,
and a small model's logits move by half a unit with the number of rows: no two ways to compute a
text say the same then, whoever batches it. Q4_1 has one kernel.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
from pathlib import Path

import llama_cpp

from inference.engine.llama_load import init_library


def requantised(source: Path) -> Path:
    """`source` in Q4_1, written beside it at the first call; safe from several processes."""
    path = source.with_name(f"{source.stem}-as-q4_1.gguf")
    if path.is_file():
        return path
    init_library()
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_1
    params.allow_requantize = True
    params.nthread = 1
    with (source.parent / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            code = llama_cpp.llama_model_quantize(
                os.fsencode(source), os.fsencode(draft), ctypes.byref(params)
            )
            assert code == 0, f"llama_model_quantize: {code}"
            draft.replace(path)
    return path
