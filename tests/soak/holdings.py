"""What an engine holds outside of Python's sight, counted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from inference.engine.backend import Backend
from inference.engine.engine import Engine
from inference.engine.mock_backend import MockBackend
from tests.engine.ledger import Ledger


class Holdings(Protocol):
    """Counts from before the engine is built."""

    def watch(self, engine: Engine) -> None:
        """The engine is there, and nobody has asked for anything yet."""
        ...

    def held(self) -> dict[str, int]:
        """Things that are allocated now, by kind; all 0 while nobody asks for anything."""
        ...

    def peaks(self) -> dict[str, int]:
        """The most of each kind that were allocated at once."""
        ...

    def cells(self, backend: Backend) -> list[int]:
        """Cells of the KV cache that are in use, by stream."""
        ...


class MockHoldings:
    """Of engines on the mock backend."""

    def __init__(self) -> None:
        self._ledger: Ledger | None = None

    def watch(self, engine: Engine) -> None:
        """See `Holdings.watch`."""
        self._ledger = Ledger(engine._backend)

    def held(self) -> dict[str, int]:
        """See `Holdings.held`."""
        assert self._ledger is not None
        return {"chains": len(self._ledger.samplers), "grammars": len(self._ledger.grammars)}

    def peaks(self) -> dict[str, int]:
        """See `Holdings.peaks`."""
        assert self._ledger is not None
        return {"chains": self._ledger.max_samplers, "grammars": self._ledger.max_grammars}

    def cells(self, backend: Backend) -> list[int]:
        """See `Holdings.cells`."""
        assert isinstance(backend, MockBackend)
        return list(backend._lengths)


@contextmanager
def _mock() -> Iterator[MockHoldings]:
    yield MockHoldings()


def counted(engine_class: str) -> AbstractContextManager[Holdings]:
    """Holdings of the engines of that class which are built inside."""
    if engine_class == "mock":
        return _mock()
    from tests.soak.llama_holdings import native  # only where the library is built

    return native()
