"""What llama.cpp has allocated for sequences: every call that makes or frees something is seen."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import llama_cpp

from inference.engine.backend import Backend
from inference.engine.engine import Engine
from inference.engine.llama_backend import LlamaBackend

MADE_BY = {
    "chains": "llama_sampler_chain_init",
    "grammars": "llama_sampler_init_grammar",
}


class NativeHoldings:
    """See `Holdings`."""

    def __init__(self) -> None:
        self._held: dict[str, set[int]] = {kind: set() for kind in MADE_BY}
        self._peaks = dict.fromkeys(MADE_BY, 0)

    def watch(self, engine: Engine) -> None:
        """See `Holdings.watch`; the library itself is watched already."""

    def held(self) -> dict[str, int]:
        """See `Holdings.held`."""
        return {kind: len(addresses) for kind, addresses in self._held.items()}

    def peaks(self) -> dict[str, int]:
        """See `Holdings.peaks`."""
        return dict(self._peaks)

    def cells(self, backend: Backend) -> list[int]:
        """See `Holdings.cells`."""
        assert isinstance(backend, LlamaBackend)
        out = []
        for seq_id in range(backend.num_seqs):
            first = llama_cpp.llama_memory_seq_pos_min(backend._memory, seq_id)
            last = llama_cpp.llama_memory_seq_pos_max(backend._memory, seq_id)
            out.append(last - first + 1 if first >= 0 else 0)
        return out

    def making(self, kind: str, make: Callable[..., Any]) -> Callable[..., Any]:
        """`make`, with what it returns counted."""

        def made(*arguments: Any) -> Any:
            item = make(*arguments)
            if item:
                held = self._held[kind]
                held.add(_address(item))
                self._peaks[kind] = max(self._peaks[kind], len(held))
            return item

        return made

    def freeing(self, free: Callable[..., Any]) -> Callable[..., Any]:
        """`free`, with what it is given counted no longer."""

        def freed(item: Any) -> Any:
            for addresses in self._held.values():
                addresses.discard(_address(item))
            return free(item)

        return freed


@contextmanager
def native() -> Iterator[NativeHoldings]:
    """Count what is made and freed inside."""
    holdings = NativeHoldings()
    with ExitStack() as stack:

        def replace(name: str, wrap: Callable[[Any], Any]) -> None:
            stack.enter_context(mock.patch.object(llama_cpp, name, wrap(getattr(llama_cpp, name))))

        for kind, name in MADE_BY.items():
            replace(name, lambda make, kind=kind: holdings.making(kind, make))
        replace("llama_sampler_free", holdings.freeing)
        yield holdings


def _address(item: Any) -> int:
    return ctypes.cast(item, ctypes.c_void_p).value or 0
