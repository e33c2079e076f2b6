"""What each layer of a model keeps of a text: keys and values, a window of them, or a state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from inference.registry.gguf.architectures import (
    BOTH,
    DIFFUSION,
    ENCODERS,
    FEED_FORWARD_APART,
    HYBRID,
    INTERVAL,
    RECURRENT,
    SHARED_KV_FROM,
    WINDOW_LENS,
    WINDOWS,
)
from inference.registry.gguf.errors import check_count
from inference.registry.gguf.pairs import Pairs
from inference.registry.gguf.tensors import MAX_LAYERS

DEFAULT_KDA_KERNEL: Final = 4


@dataclass(frozen=True, slots=True)
class Layers:
    """Numbers that one token (or, of a state, one sequence) costs a layer, by layer.

    `keys`, `values`: of each token, 0 where a layer keeps none. `is_windowed`: only as far as the
    window. `state`: of each sequence, whatever its length. `max_values`: the most of `values`
    before sharing; a cache without flash attention pads all layers to it.
    """

    keys: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    is_windowed: tuple[bool, ...] = ()
    state: tuple[int, ...] = ()
    max_values: int = 0


@dataclass(frozen=True, slots=True)
class Heads:
    """Of attention: the most that a layer has; lengths in numbers, `window_len` in tokens."""

    num: int = 0
    num_kv: int = 0
    key_len: int = 0
    value_len: int = 0
    window_len: int = 0


def read_layers(pairs: Pairs, architecture: str) -> tuple[Heads, Layers]:
    """What a header says of a model's layers.

    Raises:
        GgufError: more layers than a model can have, or a list that is shorter than them.
    """
    reader = _Reader(pairs, architecture)
    return reader.heads(), reader.layers()


class _Reader:
    def __init__(self, pairs: Pairs, architecture: str) -> None:
        self._pairs = pairs
        self._architecture = architecture
        num_all = self._whole("block_count")
        check_count(f"layers ({architecture}.block_count)", num_all, MAX_LAYERS)
        num_next = min(self._whole("nextn_predict_layers"), num_all)
        # Those that only predict further tokens keep nothing of the text, unless there are no else.
        self._num_trunk = num_all - num_next or num_all
        self._num = num_all
        self._head_counts = self._each("attention.head_count")
        self._kv_counts = (
            self._each("attention.head_count_kv")
            if self._key("attention.head_count_kv") in pairs
            else self._head_counts
        )
        first = next((count for count in self._head_counts if count), 0)
        even = self._whole("embedding_length") // first if first else 0
        self._key_len = self._whole("attention.key_length", even) if first else 0
        self._value_len = self._whole("attention.value_length", even) if first else 0
        self._window_len = self._whole("attention.sliding_window")
        if self._key("attention.sliding_window") not in pairs:
            self._window_len = WINDOW_LENS.get(architecture, 0)

    def heads(self) -> Heads:
        """The most of any layer."""
        return Heads(
            num=max(self._head_counts, default=0),
            num_kv=max(self._kv_counts, default=0),
            key_len=self._key_len,
            value_len=self._value_len,
            window_len=self._window_len,
        )

    def layers(self) -> Layers:
        """Layer by layer."""
        windowed = self._windowed()
        keys = self._widths("attention.key_length_swa", self._key_len, windowed)
        values = self._widths("attention.value_length_swa", self._value_len, windowed)
        keeps = [self._keeps_tokens(layer) for layer in range(self._num)]
        is_compressed = self._whole("attention.key_length_mla") > 0  # values are within the keys
        return Layers(
            keys=tuple(n if kept else 0 for n, kept in zip(keys, keeps, strict=True)),
            values=tuple(
                n if kept and not is_compressed else 0
                for n, kept in zip(values, keeps, strict=True)
            ),
            is_windowed=windowed,
            state=tuple(
                self._state() if self._is_recurrent(layer) else 0 for layer in range(self._num)
            ),
            max_values=0 if is_compressed else max(values, default=0),
        )

    def _widths(self, key: str, full: int, windowed: tuple[bool, ...]) -> tuple[int, ...]:
        narrow = self._whole(key, full)
        pairs = zip(self._kv_counts, windowed, strict=True)
        return tuple(count * (narrow if is_windowed else full) for count, is_windowed in pairs)

    def _keeps_tokens(self, layer: int) -> bool:
        if self._architecture in ENCODERS | DIFFUSION | RECURRENT or layer >= self._num_trunk:
            return False
        shared = self._whole("attention.shared_kv_layers")
        until = SHARED_KV_FROM.get(self._architecture, self._num - shared)
        if layer >= until:
            return False
        return self._architecture in BOTH or not self._is_recurrent(layer)

    def _is_recurrent(self, layer: int) -> bool:
        if layer >= self._num_trunk:
            return False
        if self._architecture in RECURRENT | BOTH:
            return True
        listed = self._key("attention.recurrent_layers")
        if self._pairs.is_list(listed):
            return bool(self._pairs.each(listed, self._num)[layer])
        if self._architecture in INTERVAL:
            every = self._whole("full_attention_interval", INTERVAL[self._architecture])
            return (layer + 1) % max(1, every) != 0
        if self._architecture in HYBRID and self._kv_counts[layer] == 0:
            is_apart = self._architecture in FEED_FORWARD_APART
            return not (is_apart and self._each("feed_forward_length")[layer])
        return False

    def _state(self) -> int:
        """Numbers of one recurrent layer's state, as `llama_hparams` counts them."""
        embedding_len = self._whole("embedding_length")
        if wkv := self._whole("wkv.head_size"):
            return embedding_len * (self._whole("token_shift_count", 2) + wkv)
        if cache := self._whole("shortconv.l_cache"):
            return embedding_len * (cache - 1)
        num_heads = max(self._head_counts, default=0)
        kernel = self._whole("ssm.conv_kernel")
        if kda := self._whole("kda.head_dim"):
            width = num_heads * kda
            return 3 * ((kernel or DEFAULT_KDA_KERNEL) - 1) * width + kda * width
        if self._architecture == "minimax-01":
            return self._key_len * self._key_len * num_heads
        inner, state = self._whole("ssm.inner_size"), self._whole("ssm.state_size")
        rows = inner + 2 * self._whole("ssm.group_count") * state
        return max(0, kernel - 1) * rows + state * inner

    def _windowed(self) -> tuple[bool, ...]:
        if not self._window_len:
            return (False,) * self._num
        key = self._key("attention.sliding_window_pattern")
        if self._pairs.is_list(key):
            return tuple(bool(one) for one in self._pairs.each(key, self._num))
        every, first_sees_all = WINDOWS.get(self._architecture, (0, False))
        if not every:
            return (False,) * self._num
        every = self._whole("attention.sliding_window_pattern", every)
        return tuple(
            layer < self._num_trunk and _is_windowed(layer, every, first_sees_all)
            for layer in range(self._num)
        )

    def _key(self, name: str) -> str:
        return f"{self._architecture}.{name}"

    def _whole(self, name: str, default: int = 0) -> int:
        return self._pairs.whole(self._key(name), default)

    def _each(self, name: str) -> tuple[int, ...]:
        return self._pairs.each(self._key(name), self._num)


def _is_windowed(layer: int, every: int, first_sees_all: bool) -> bool:
    if every == 0:
        return True
    return layer % every != 0 if first_sees_all else layer % every < every - 1
