"""The table of a file's tensors, checked: what llama.cpp would map has to be there."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from inference.registry.gguf.cursor import Cursor
from inference.registry.gguf.errors import GgufError, check_count, shown
from inference.registry.gguf.kinds import TENSOR_KINDS

MAX_TENSORS: Final = 65_536
MAX_NAME_LEN: Final = 63  # llama.cpp's
MAX_DIMS: Final = 4
MAX_VALUES: Final = 2**63 - 1
MAX_LAYERS: Final = 1024
_LAYER_RE: Final = re.compile(r"blk\.(\d{1,4})\.")


@dataclass(slots=True)
class TensorTable:
    """Sums over all tensors. `layer_bytes`: of each `blk.N`; `input_bytes`: token embeddings;
    `output_bytes`: the output matrix, 0 if the embeddings serve for it; `end`: of the last one, in
    the file."""

    num_tensors: int = 0
    num_params: int = 0
    params_by_kind: Counter[str] = field(default_factory=Counter)
    layer_bytes: Counter[int] = field(default_factory=Counter)
    input_bytes: int = 0
    output_bytes: int = 0
    other_bytes: int = 0
    end: int = 0

    @property
    def main_kind(self) -> str:
        """The type that most parameters of matrices have, "" without any."""
        found = self.params_by_kind
        return max(found, key=lambda kind: (found[kind], kind), default="")

    def add(self, name: str, kind: str, dims: tuple[int, ...], num_values: int, size: int) -> None:
        """Count a tensor in."""
        self.num_tensors += 1
        self.num_params += num_values
        if sum(dim > 1 for dim in dims) > 1:
            self.params_by_kind[kind] += num_values
        layer = _LAYER_RE.match(name)
        if layer is not None and int(layer[1]) < MAX_LAYERS:
            self.layer_bytes[int(layer[1])] += size
        elif name.startswith("token_embd."):
            self.input_bytes += size
        elif name.startswith("output."):
            self.output_bytes += size
        else:
            self.other_bytes += size


def read_tensors(cursor: Cursor, count: int, *, alignment: int, size: int) -> TensorTable:
    """Read the table at `cursor` and check it against the file of `size` bytes.

    Raises:
        GgufError: a tensor is named twice, of an unknown type, of an impossible shape, not where
            it has to be, or beyond the file's end.
    """
    check_count("tensors", count, MAX_TENSORS)
    table, names, expected = TensorTable(), set[str](), 0
    for _ in range(count):
        name = _name(cursor, names)
        cursor.subject = f"tensor {shown(name)!r}"
        dims = _dims(cursor)
        kind, num_values, num_bytes = _extent(cursor, dims)
        _check_place(cursor.u64(), expected, alignment, cursor.subject)
        expected = _padded(expected + num_bytes, alignment)
        table.add(name, kind, dims, num_values, num_bytes)
        table.end = expected - (-num_bytes % alignment)
    table.end += _padded(cursor.offset, alignment) if count else cursor.offset
    if table.end > size:
        raise GgufError(f"the file is cut off: {table.end:,} bytes expected, {size:,} are there")
    return table


def _name(cursor: Cursor, names: set[str]) -> str:
    cursor.subject = "a tensor's name"
    place = cursor.offset
    raw = cursor.text(MAX_NAME_LEN, "a tensor's name")
    try:
        name = raw.decode()
    except UnicodeDecodeError as error:
        raise GgufError(
            f"the tensor's name {shown(raw)!r} is no text in UTF-8 (byte {place:,})"
        ) from error
    if name in names:
        raise GgufError(f"the header has the tensor {shown(name)!r} twice (byte {place:,})")
    names.add(name)
    return name


def _dims(cursor: Cursor) -> tuple[int, ...]:
    num_dims = cursor.u32()
    check_count(f"dimensions of {cursor.subject}", num_dims, MAX_DIMS)
    return tuple(cursor.u64() for _ in range(num_dims))


def _extent(cursor: Cursor, dims: tuple[int, ...]) -> tuple[str, int, int]:
    """Type, number of values and bytes."""
    kind = cursor.u32()
    if kind not in TENSOR_KINDS:
        raise GgufError(f"{cursor.subject} is of the unknown type {kind}")
    name, block, num_bytes = TENSOR_KINDS[kind]
    num_values = 1
    for dim in dims:
        num_values *= dim
        if dim > MAX_VALUES or num_values > MAX_VALUES:
            raise GgufError(f"{cursor.subject} has an impossible shape: {_shape(dims)}")
    if dims and dims[0] % block:
        raise GgufError(
            f"{cursor.subject} has rows of {dims[0]:,} values; {name} packs {block} together"
        )
    return name, num_values, num_values // block * num_bytes


def _check_place(offset: int, expected: int, alignment: int, subject: str) -> None:
    if offset == expected:
        return
    if offset % alignment:
        raise GgufError(f"{subject} isn't aligned to {alignment} bytes (offset {offset:,})")
    what = "overlaps the one before" if offset < expected else "leaves a gap before it"
    raise GgufError(f"{subject} {what}: offset {offset:,}, expected {expected:,}")


def _padded(place: int, alignment: int) -> int:
    return -(-place // alignment) * alignment


def _shape(dims: tuple[int, ...]) -> str:
    return " × ".join(f"{dim:,}" for dim in dims)
