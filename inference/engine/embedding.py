"""What the embedder sees of a model that turns texts into vectors or scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inference.engine.contract import Task
from inference.engine.vectors import Vectors
from inference.protocol.events import Snapshot
from inference.protocol.vectors import EUCLIDEAN, Pooling


@dataclass(frozen=True, slots=True)
class EmbeddingInfo:
    """`dimensions` of a vector; `max_input_len`: tokens a text may have. `front`, `between` and
    `back`: token ids around a text, and between query and document, whose texts `pair_template`
    has as {query} and {document} where the model wants words around them. `is_nested`: the leading
    numbers of a vector are one, too. `norm`: what vectors are divided by where a request says
    nothing. `in_pieces`: a text may be computed in several batches, alone in each."""

    pooling: Pooling
    dimensions: int
    max_input_len: int
    embeds: bool = True
    ranks: bool = False
    front: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    back: tuple[int, ...] = ()
    pair_template: str = ""
    is_nested: bool = False
    norm: int = EUCLIDEAN
    in_pieces: bool = False


@dataclass(frozen=True, slots=True)
class VectorRequest:
    """An `EmbedRequest` or a `RerankRequest` as tokens; see `Prepared`."""

    generation_id: str
    inputs: tuple[tuple[int, ...], ...]
    task: Task = "embed"
    normalize: int = EUCLIDEAN
    dimensions: int = 0

    def after(self, log: Snapshot | None, *, alone: bool) -> VectorRequest:
        """See `Prepared.after`: nothing of it can be gone on from."""
        return self


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of one text. `start`: how many of it were computed before; `is_last`: its vectors are
    wanted now."""

    tokens: tuple[int, ...]
    start: int = 0
    is_last: bool = True


class EmbeddingBackend(Protocol):
    """A model with a context of its own for vectors; `compute` is called from one thread."""

    @property
    def info(self) -> EmbeddingInfo:
        """What it makes of which texts."""
        ...

    @property
    def batch_len(self) -> int:
        """Tokens of one `compute`; `max_input_len` is above this only with `in_pieces`."""
        ...

    @property
    def max_texts(self) -> int:
        """Texts of one `compute`."""
        ...

    @property
    def progress(self) -> int:
        """Changes while a long `compute` gets on; read from any thread."""
        ...

    def compute(self, pieces: Sequence[Piece], task: Task) -> list[Vectors]:
        """For each piece its vectors, or (1, n) scores; an empty array if it isn't the last one.

        Raises:
            LlamawebError: nothing of it may be used.
        """
        ...

    def close(self) -> None:
        """Free the context."""
        ...
