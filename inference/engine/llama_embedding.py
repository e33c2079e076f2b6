"""A model's second context, for vectors and scores. Only files named llama_* import `llama_cpp`.

llama.cpp pools the tokens of a text within one micro-batch, and computes texts that look both ways
in one, so a batch is one here. Where each token sees only what is before it a text may come in
pieces: the last token speaks for all then, or they are pooled here.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import llama_cpp
import numpy as np

from inference.engine.contract import Task
from inference.engine.embedding import EmbeddingInfo, Piece
from inference.engine.errors import BackendError
from inference.engine.llama_load import context_len, flash_type, metadata, num_threads
from inference.engine.nested import is_nested
from inference.engine.pooling import TokenPool
from inference.engine.vectors import Vectors
from inference.protocol.spec import EngineSpec
from inference.protocol.vectors import Pooling
from llamaweb.lib.errors import FailedError

POOLINGS: Final[tuple[Pooling, ...]] = ("none", "mean", "cls", "last", "rank")  # as numbered there
MAX_TEXTS: Final = 64
MAX_STATES: Final = 4  # of a model that keeps a state for each text, allocated with the context
CONTEXT_RETRY_S: Final = 10.0  # where there was no memory for one
WATCHED_LEN: Final = 1024  # tokens; computing fewer takes no time that anybody would have to watch
# Of a model that does nothing else, where nobody said how much: what it was trained for, up to a
# length, and to a size of llama.cpp's buffer, which holds a row of the vocabulary for each token.
DEFAULT_TEXT_LEN: Final = 2048
DEFAULT_OUTPUT_BYTES: Final = 512 * 1024 * 1024
WARM_UP_LEN: Final = 33  # enough rows for the kernels of whole texts
# They look both ways, or end in vectors, whatever their header says.
ENCODERS: Final = frozenset({"gemma-embedding", "eurobert", "llama-embed"})


class LlamaEmbedding:
    """See `EmbeddingBackend`. The context is made with the first batch. `progress`: nodes of the
    graphs of long batches, computed so far.

    `threads`: how many compute the next batch. `owns_model`: `close` frees it, too.
    """

    def __init__(
        self,
        model: Any,
        spec: EngineSpec,
        *,
        threads: Callable[[], int] | None = None,
        owns_model: bool = False,
    ) -> None:
        self._model = model
        self._spec = spec
        self._owns_model = owns_model
        self._threads = threads or (lambda: num_threads(spec))
        self._used_threads = 0
        self._context: Any = None
        self._memory: Any = None
        self._retry_ts = 0.0
        self.progress = 0
        self._watch = llama_cpp.ggml_abort_callback(self._note_node)
        self.batch_len, self._num_cells = _lengths(model, spec)
        self.max_texts = _max_texts(model, self.batch_len)
        self.info = _info(model, spec, batch_len=self.batch_len, num_cells=self._num_cells)
        self._rows = _Rows(self.batch_len)
        self._pool = TokenPool(is_mean=self.info.pooling == "mean")
        self._gets_tokens = _context_pooling(model, spec) == "none"

    def compute(self, pieces: Sequence[Piece], task: Task) -> list[Vectors]:
        """See `EmbeddingBackend`; a model has one task, whatever `task` says.

        Raises:
            BackendError: the pieces don't fit, or llama.cpp can't compute them.
            FailedError: there is no memory for the context.
        """
        self._check(pieces)
        context = self._ready()
        if pieces[0].start == 0 and self._memory:
            llama_cpp.llama_memory_clear(self._memory, False)
        is_long = sum(len(piece.tokens) for piece in pieces) >= WATCHED_LEN
        watch = self._watch if is_long else llama_cpp.ggml_abort_callback()
        llama_cpp.llama_set_abort_callback(context, watch, None)
        code = llama_cpp.llama_decode(context, self._rows.fill(pieces))
        if code != 0:
            raise BackendError(f"llama_decode of texts: {code}")
        if self._gets_tokens:
            return self._pooled(pieces)
        width = self.info.dimensions
        return [
            _rows_at(llama_cpp.llama_get_embeddings_seq(context, seq_id), 1, width).copy()
            if piece.is_last
            else np.empty((0, width), np.float32)
            for seq_id, piece in enumerate(pieces)
        ]

    def warm_up(self) -> None:
        """One batch, so that a build that can't run here dies before it has work."""
        length = min(WARM_UP_LEN, self.info.max_input_len)
        self.compute([Piece((0,) * length)], "embed")

    def close(self) -> None:
        """See `EmbeddingBackend`; may be called again."""
        if self._context:
            llama_cpp.llama_free(self._context)
            self._context = None
        if self._owns_model and self._model:
            llama_cpp.llama_model_free(self._model)
            self._model = None

    def _check(self, pieces: Sequence[Piece]) -> None:
        """llama.cpp would end the process."""
        lengths = [len(piece.tokens) for piece in pieces]
        is_cut = any(piece.start or not piece.is_last for piece in pieces)
        ends = max(piece.start + len(piece.tokens) for piece in pieces)
        if not (0 < len(pieces) <= self.max_texts and min(lengths) > 0):
            raise BackendError("there is nothing to compute")
        if sum(lengths) > self.batch_len or ends > self.info.max_input_len:
            raise BackendError("the batch is larger than the context allows")
        if is_cut and (len(pieces) > 1 or not self.info.in_pieces):
            raise BackendError("these texts can't come in pieces")

    def _note_node(self, _data: Any) -> bool:
        """Called between two nodes on CPUs; whether to end it."""
        self.progress += 1
        return False

    def _ready(self) -> Any:
        if not self._context:
            self._make()
        wanted = self._threads()
        if wanted != self._used_threads:
            llama_cpp.llama_set_n_threads(self._context, wanted, wanted)
            self._used_threads = wanted
        return self._context

    def _make(self) -> None:
        """It takes memory and time to find out that there isn't enough, so not for each request."""
        if time.monotonic() < self._retry_ts:
            raise FailedError("there was no memory for a context for texts a moment ago")
        try:
            self._context = _make_context(self._model, self._spec, self.batch_len, self._num_cells)
        except FailedError:
            self._retry_ts = time.monotonic() + CONTEXT_RETRY_S
            raise
        self._memory = llama_cpp.llama_get_memory(self._context)

    def _pooled(self, pieces: Sequence[Piece]) -> list[Vectors]:
        """Of the tokens' vectors, which stand in the order of the batch."""
        lengths = [len(piece.tokens) for piece in pieces]
        found = llama_cpp.llama_get_embeddings(self._context)
        rows = _rows_at(found, sum(lengths), self.info.dimensions)
        parts = np.split(rows, np.cumsum(lengths)[:-1])
        return [self._pool.take(piece, part) for piece, part in zip(pieces, parts, strict=True)]


def _rows_at(pointer: Any, num: int, width: int) -> Vectors:
    """Vectors in llama.cpp's buffer, which the next batch overwrites."""
    if not pointer:
        raise BackendError("there are no vectors")
    return np.ctypeslib.as_array(pointer, (num, width))


class _Rows:
    """The arrays of llama_batch: a text is a sequence, all its rows are outputs."""

    def __init__(self, capacity: int) -> None:
        self._tokens = np.zeros(capacity, np.int32)
        self._positions = np.zeros(capacity, np.int32)
        self._outputs = np.ones(capacity, np.int8)
        self._num_seq_ids = np.ones(capacity, np.int32)
        self._seq_cells = np.arange(MAX_TEXTS, dtype=np.int32)
        base = self._seq_cells.ctypes.data
        self._seq_addresses = base + 4 * np.arange(MAX_TEXTS, dtype=np.uint64)
        self._row_addresses = np.zeros(capacity, np.uint64)
        batch: Any = llama_cpp.llama_batch()
        batch.token = self._tokens.ctypes.data_as(llama_cpp.llama_token_p)
        batch.pos = _pointer(self._positions, llama_cpp.llama_pos)
        batch.n_seq_id = _pointer(self._num_seq_ids, ctypes.c_int32)
        batch.seq_id = _pointer(self._row_addresses, ctypes.POINTER(llama_cpp.llama_seq_id))
        batch.logits = _pointer(self._outputs, ctypes.c_int8)
        self._batch = batch

    def fill(self, pieces: Sequence[Piece]) -> Any:
        """The batch of these pieces; text i is sequence i."""
        row = 0
        for seq_id, piece in enumerate(pieces):
            end = row + len(piece.tokens)
            self._tokens[row:end] = piece.tokens
            self._positions[row:end] = np.arange(piece.start, piece.start + end - row)
            self._row_addresses[row:end] = self._seq_addresses[seq_id]
            row = end
        self._batch.n_tokens = row
        return self._batch


def embeds_only(model: Any, spec: EngineSpec) -> bool:
    """Whether a model was made for vectors or scores; it writes no answers then."""
    if spec.pooling == "rank":
        return True
    name = metadata(model, "general.architecture") or ""
    if "bert" in name or name in ENCODERS:
        return True
    is_pooled = _stated_pooling(model) not in (None, "none")
    return is_pooled or metadata(model, f"{name}.attention.causal") == "false"


def _stated_pooling(model: Any) -> Pooling | None:
    name = metadata(model, "general.architecture") or ""
    stated = metadata(model, f"{name}.pooling_type") or ""
    number = int(stated) if stated.isdigit() else len(POOLINGS)
    return POOLINGS[number] if number < len(POOLINGS) else None


def _pooling(model: Any, spec: EngineSpec) -> Pooling:
    """A model without a head for it would rank by noise: whoever asks for that has looked."""
    if spec.pooling == "auto":
        return _stated_pooling(model) or "mean"
    return spec.pooling


def _looks_back(model: Any) -> bool:
    """Whether each token sees what is before it, and nothing else."""
    name = metadata(model, "general.architecture") or ""
    is_encoder = "bert" in name or name in ENCODERS or llama_cpp.llama_model_has_encoder(model)
    return not is_encoder and metadata(model, f"{name}.attention.causal") != "false"


def _in_pieces(model: Any, spec: EngineSpec) -> bool:
    """Whether a text may come in pieces; nobody wants the vector of a first token that has seen
    nothing."""
    return _looks_back(model) and _pooling(model, spec) != "cls"


def _reads_on(model: Any, spec: EngineSpec) -> bool:
    """Whether a text may be longer than a batch."""
    return _looks_back(model) and _pooling(model, spec) in ("last", "rank")


def _context_pooling(model: Any, spec: EngineSpec) -> Pooling:
    """What llama.cpp does: it can't pool what comes in pieces."""
    pooling = _pooling(model, spec)
    return "none" if pooling == "mean" and _looks_back(model) else pooling


def _lengths(model: Any, spec: EngineSpec) -> tuple[int, int]:
    """Tokens of a batch, and cells of the context."""
    batch_len = min(spec.ubatch_len, spec.batch_len)
    if _reads_on(model, spec):
        return batch_len, max(batch_len, context_len(model, spec))
    if embeds_only(model, spec):
        trained = int(llama_cpp.llama_model_n_ctx_train(model))
        vocab_len = int(llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model)))
        fitting = DEFAULT_OUTPUT_BYTES // (4 * vocab_len)
        wanted = spec.context_len or min(DEFAULT_TEXT_LEN, fitting)
        batch_len = max(batch_len, min(wanted, trained))
    return batch_len, batch_len


def _max_texts(model: Any, batch_len: int) -> int:
    """Of a batch; llama.cpp plans for one token of each at least."""
    has_state = llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model)
    return min(MAX_STATES if has_state else MAX_TEXTS, batch_len)


def _info(model: Any, spec: EngineSpec, *, batch_len: int, num_cells: int) -> EmbeddingInfo:
    pooling = _pooling(model, spec)
    ranks = pooling == "rank"
    trained = int(llama_cpp.llama_model_n_ctx_train(model))
    template = llama_cpp.llama_model_chat_template(model, b"rerank") if ranks else None
    front, between, back = _affixes(model)
    return EmbeddingInfo(
        pooling=pooling,
        dimensions=int(
            llama_cpp.llama_model_n_cls_out(model)
            if ranks
            else llama_cpp.llama_model_n_embd_out(model)
        ),
        max_input_len=min(num_cells, trained),
        embeds=not ranks,
        ranks=ranks,
        front=front,
        between=between,
        back=back,
        pair_template=template.decode("utf-8", "replace") if template else "",
        is_nested=is_nested(
            metadata(model, "general.architecture") or "", metadata(model, "general.name") or ""
        ),
        norm=spec.vector_norm,
        in_pieces=_in_pieces(model, spec),
    )


def _affixes(model: Any) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Token ids in front of a text, between two, and behind."""
    vocab = llama_cpp.llama_model_get_vocab(model)
    around = (llama_cpp.llama_token * 8)()
    num = max(0, llama_cpp.llama_tokenize(vocab, b"", 0, around, 8, True, False))
    num_front = int(bool(llama_cpp.llama_vocab_get_add_bos(vocab)))
    front, back = tuple(around[:num_front]), tuple(around[num_front:num])
    end, separator = llama_cpp.llama_vocab_eos(vocab), llama_cpp.llama_vocab_sep(vocab)
    between = (
        *([end] if llama_cpp.llama_vocab_get_add_eos(vocab) and end >= 0 else []),
        *([separator] if llama_cpp.llama_vocab_get_add_sep(vocab) and separator >= 0 else []),
    )
    return front, between or back, back


def _make_context(model: Any, spec: EngineSpec, batch_len: int, num_cells: int) -> Any:
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = num_cells
    params.n_batch = params.n_ubatch = batch_len
    params.n_seq_max = _max_texts(model, batch_len)
    params.n_threads = params.n_threads_batch = num_threads(spec)
    params.flash_attn_type = flash_type(model, spec)
    params.kv_unified = True  # else texts of different lengths wouldn't share a micro-batch
    params.embeddings = True
    params.pooling_type = POOLINGS.index(_context_pooling(model, spec))
    params.no_perf = True
    context = llama_cpp.llama_init_from_model(model, params)
    if not context:
        raise FailedError(f"no context for texts of {num_cells} tokens could be made")
    return context


def _pointer(array: Any, kind: Any) -> Any:
    return ctypes.cast(array.ctypes.data, ctypes.POINTER(kind))
