"""What a backend has handed out and not got back: samplers and grammars hold memory of llama.cpp's
that Python doesn't see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inference.engine.backend import Backend


class Ledger:
    """Counts on any backend, from the moment it is made; something closed twice is a mistake."""

    def __init__(self, backend: Backend) -> None:
        self.samplers: set[int] = set()
        self.grammars: set[int] = set()
        self.num_made = 0
        self.max_samplers = self.max_grammars = 0  # at once
        counted: Any = backend
        counted.sampler = self._counting(backend.sampler, self.samplers)
        counted.grammar = self._counting(backend.grammar, self.grammars)

    def _counting(self, make: Callable[..., Any], held: set[int]) -> Callable[..., Any]:
        def made(*arguments: Any) -> Any:
            item = make(*arguments)
            close = item.close
            number = self.num_made
            self.num_made += 1

            def closed() -> None:
                held.remove(number)
                close()

            item.close = closed
            held.add(number)
            self.max_samplers = max(self.max_samplers, len(self.samplers))
            self.max_grammars = max(self.max_grammars, len(self.grammars))
            return item

        return made
