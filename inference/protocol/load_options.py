"""How a model's weights get into memory, and how they are spread over several GPUs."""

from __future__ import annotations

from llamaweb.lib.errors import InvalidError

# auto: as llama.cpp thinks best here; read: into memory of the process; map: pages of the file,
# read when they are touched; lock: may not be swapped out; direct: read past the page cache.
LOAD_MODES = ("auto", "read", "map", "lock", "map_lock", "direct")
# layer: whole layers to each; row, tensor: each matrix to all; none: everything to the main GPU.
SPLIT_MODES = ("layer", "row", "tensor", "none")


def check_load_options(*, load_mode: str, split_mode: str) -> None:
    """Whether there are such modes.

    Raises:
        InvalidError: naming the field.
    """
    if load_mode not in LOAD_MODES:
        raise InvalidError(f"load_mode is one of {', '.join(LOAD_MODES)}", param="load_mode")
    if split_mode not in SPLIT_MODES:
        raise InvalidError(f"split_mode is one of {', '.join(SPLIT_MODES)}", param="split_mode")
