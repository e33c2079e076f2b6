"""What the pure engine sees of a model and its memory. The mock and llama.cpp look the same here.

Memory is `num_seqs` independent streams, each holding the tokens at positions 0..n-1 of one
sequence; unified, the streams share one pool of `pool_len` cells. All calls come from one
thread; samplers and grammars are used from several, each by one at a time.
"""

from __future__ import annotations

from typing import Protocol

from inference.engine.adapters import Adapter, Scales
from inference.engine.batch import Batch
from inference.engine.constraints import Constraint
from inference.engine.contract import SequenceRequest
from inference.engine.host_cache import State
from inference.engine.picks import Logits, Sampler
from inference.engine.sampling import Chain
from inference.text.tokenizer import Tokenizer


class Backend(Protocol):
    """A loaded model with its context. `batch_len` rows a decode, `ubatch_len` a micro-batch."""

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's vocabulary."""
        ...

    @property
    def num_seqs(self) -> int:
        """Streams; seq_ids are 0..num_seqs-1."""
        ...

    @property
    def max_context(self) -> int:
        """Tokens a stream can hold."""
        ...

    @property
    def pool_len(self) -> int:
        """Tokens that all streams can hold together, where they share one pool."""
        ...

    @property
    def batch_len(self) -> int:
        """See the class."""
        ...

    @property
    def ubatch_len(self) -> int:
        """See the class."""
        ...

    @property
    def can_share(self) -> bool:
        """Whether this memory can go on from any prefix of what it holds (a recurrent state can
        go on from its end only)."""
        ...

    @property
    def can_shift(self) -> bool:
        """Whether `cut` works."""
        ...

    @property
    def is_unified(self) -> bool:
        """One pool of cells: copies cost nothing, and `decode` may find no room."""
        ...

    @property
    def fingerprint(self) -> str:
        """Names what KV depends on: model, library build, KV types, flash attention, rope."""
        ...

    def begin(self, seq_id: int, request: SequenceRequest) -> None:
        """A sequence takes the stream; the tokens in it stay."""
        ...

    @property
    def graphs_reused(self) -> int:
        """Passes that took the graph of the one before again, since the start."""
        ...

    @property
    def adapters(self) -> tuple[Adapter, ...]:
        """The loaded LoRA adapters; requests name them by their place."""
        ...

    def use_adapters(self, scales: Scales) -> None:
        """The next batches are computed with these adapters and no others."""
        ...

    @property
    def num_threads(self) -> int:
        """CPU threads of a decode as it was loaded."""
        ...

    def use_threads(self, num: int) -> None:
        """The next batches are computed with that many threads, `num_threads` at most."""
        ...

    def decode(self, batch: Batch) -> None:
        """Compute a batch. Rows are ascending by seq_id, at most one output a sequence.

        Raises:
            NoRoomError: a unified pool is full; the memory is as it was before.
            BackendError: nothing of the batch may be used; its streams are to be trimmed to 0.
        """
        ...

    def logits(self, output: int) -> Logits:
        """Logits of `batch.outputs[output]`: a writable view, good until the next `decode`."""
        ...

    def sampler(self, chain: Chain, seed: int) -> Sampler:
        """A sampler for anything but plain greedy.

        Raises:
            InvalidError: these parameters can't be built.
        """
        ...

    def grammar(self, text: str) -> Constraint:
        """A grammar that has passed `inference.text.gbnf.parse_gbnf`.

        Raises:
            InvalidError: refused all the same.
        """
        ...

    def can_reuse(self, seq_id: int, length: int) -> bool:
        """Whether the first `length` tokens of the stream suffice to go on behind them."""
        ...

    def copy(self, source: int, target: int, length: int) -> None:
        """Replace the target stream by the source stream, of which at least `length` tokens are
        wanted. Unless unified it is carried out by the next `decode`."""
        ...

    def move(self, source: int, target: int, length: int) -> None:
        """Like `copy`, and the sequence that `begin` put into the source goes on in the target."""
        ...

    def state_bytes(self, seq_id: int) -> int:
        """What `save` would return, in bytes."""
        ...

    def save(self, seq_id: int) -> State | None:
        """The used cells of the stream, or None. Never with a pending copy to the stream."""
        ...

    def restore(self, seq_id: int, state: State) -> bool:
        """Replace the stream by a saved one. Never with a pending copy to or from the stream.
        False: it is empty now."""
        ...

    def cut(self, seq_id: int, start: int, end: int) -> None:
        """Forget the tokens `start`..`end`-1 and move those behind them down (`can_shift`)."""
        ...

    def trim(self, seq_id: int, length: int) -> bool:
        """Forget all but the first `length` tokens. False: this memory can't, it is empty now."""
        ...

    def warm_up(self) -> None:
        """One decode, so that a build that can't run here dies before it has work."""
        ...

    def close(self) -> None:
        """Free model and context."""
        ...
