"""Reads the header of a GGUF file without loading it. The file is hostile until proven otherwise.

Nothing is believed: every count and length is compared with what is left of the file, all reading
has one budget, arrays are skipped and never kept, and of texts only a few short ones are. Little-
endian, versions 2 and 3, as llama.cpp writes them. Standard library only.
"""

from __future__ import annotations

import struct
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from llamaweb.lib.errors import InvalidError

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
MAX_HEADER_BYTES: Final = 256 * 1024 * 1024  # the largest vocabularies take some 20 MiB
MAX_PAIRS: Final = 65_536
MAX_TENSORS: Final = 65_536
MAX_ITEMS: Final = 4_194_304  # texts in all arrays together
MAX_KEY_LEN: Final = 65_535
MAX_NAME_LEN: Final = 1024
MAX_DIMS: Final = 8
MAX_DEPTH: Final = 4
MAX_ALIGNMENT: Final = 65_536
SHOWN_CHARS: Final = 128  # kept of a text
DEFAULT_ALIGNMENT: Final = 32

_SCALARS: Final = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f",
    7: "<?", 10: "<Q", 11: "<q", 12: "<d",
}  # fmt: skip
_STRING: Final = 8
_ARRAY: Final = 9
# Type of a tensor → (values, bytes) of one block; of other types only the start is checked.
_BLOCKS: Final = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 30: (1, 2),
}  # fmt: skip
_KEPT: Final = {
    "general.architecture",
    "general.name",
    "general.type",
    "general.alignment",
    "split.count",
    "tokenizer.chat_template",
}


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a file says of itself. `context_len` in tokens, 0 if it doesn't say."""

    version: int
    architecture: str
    name: str
    context_len: int
    has_chat_template: bool
    num_tensors: int
    size: int


class GgufError(InvalidError):
    """The file isn't a model that can be served; the message says why."""


def read_header(path: Path) -> GgufHeader:
    """Read and check the header of the file at `path`.

    Raises:
        GgufError: not a GGUF file, damaged, cut off, or of a kind that can't be served alone.
        OSError: the file can't be read.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(0)
        return _Reader(stream, size).header()


class _Reader:
    """One pass through the header. `_left`: bytes that may still be read or skipped."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._size = size
        self._left = min(size, MAX_HEADER_BYTES)
        self._is_capped = size > MAX_HEADER_BYTES
        self._items = MAX_ITEMS

    def header(self) -> GgufHeader:
        """See `read_header`."""
        if self._size < 24 or self._take(4) != MAGIC:
            raise GgufError("this is not a GGUF file")
        version = int(self._scalar("<I"))
        if version not in VERSIONS:
            raise GgufError(f"GGUF version {version & 0xFFFF} can't be read; 2 and 3 can")
        num_tensors, num_pairs = int(self._scalar("<Q")), int(self._scalar("<Q"))
        _check_count("tensors", num_tensors, MAX_TENSORS)
        _check_count("entries", num_pairs, MAX_PAIRS)
        found = self._pairs(num_pairs)
        architecture = _text(found.get("general.architecture"))
        _check_kind(found, architecture)
        self._check_tensors(num_tensors, _alignment(found))
        context = found.get(f"{architecture}.context_length")
        return GgufHeader(
            version=version,
            architecture=architecture,
            name=_text(found.get("general.name")),
            context_len=context if isinstance(context, int) and 0 < context < 2**31 else 0,
            has_chat_template=bool(found.get("tokenizer.chat_template")),
            num_tensors=num_tensors,
            size=self._size,
        )

    def _pairs(self, count: int) -> dict[str, object]:
        found: dict[str, object] = {}
        for _ in range(count):
            key = self._string(MAX_KEY_LEN).decode("utf-8", "replace")
            kind = int(self._scalar("<I"))
            is_wanted = key in _KEPT or key.endswith(".context_length")
            value = self._value(kind, keep=is_wanted)
            if is_wanted and len(found) < 64:
                found[key] = value
        return found

    def _value(self, kind: int, *, keep: bool) -> object:
        if kind == _STRING:
            if keep:
                return self._short_text()
            self._skip_string()
            return None
        if kind == _ARRAY:
            self._skip_array(1)
            return None
        if kind not in _SCALARS:
            raise GgufError(f"the header has a value of the unknown kind {kind}")
        return self._scalar(_SCALARS[kind])

    def _skip_array(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise GgufError(f"the header nests arrays more than {MAX_DEPTH} deep")
        kind, count = int(self._scalar("<I")), int(self._scalar("<Q"))
        if kind in _SCALARS:
            self._skip(count * struct.calcsize(_SCALARS[kind]))
            return
        if kind not in (_STRING, _ARRAY):
            raise GgufError(f"the header has an array of the unknown kind {kind}")
        self._items -= count
        if self._items < 0 or count * 8 > self._left:
            raise GgufError("the header's arrays have more items than the file can hold")
        for _ in range(count):
            if kind == _STRING:
                self._skip_string()
            else:
                self._skip_array(depth + 1)

    def _check_tensors(self, count: int, alignment: int) -> None:
        """Whether the file reaches to the end of its last tensor."""
        ends = 0
        for _ in range(count):
            self._string(MAX_NAME_LEN)
            num_dims = int(self._scalar("<I"))
            _check_count("dimensions", num_dims, MAX_DIMS)
            values = 1
            for _dim in range(num_dims):
                values *= int(self._scalar("<Q"))
            kind, offset = int(self._scalar("<I")), int(self._scalar("<Q"))
            block, num_bytes = _BLOCKS.get(kind, (1, 0))
            ends = max(ends, offset + values // block * num_bytes)
        start = -(-self._stream.tell() // alignment) * alignment
        if start + ends > self._size:
            raise GgufError(f"the file is cut off: {start + ends:,} bytes expected")

    def _scalar(self, form: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return value

    def _string(self, limit: int) -> bytes:
        length = int(self._scalar("<Q"))
        _check_count("characters in a name", length, limit)
        return self._take(length)

    def _short_text(self) -> str:
        """The start of a text; the rest is skipped."""
        length = int(self._scalar("<Q"))
        text = self._take(min(length, 4 * SHOWN_CHARS))
        self._skip(length - len(text))
        return text.decode("utf-8", "replace")

    def _skip_string(self) -> None:
        self._skip(int(self._scalar("<Q")))

    def _take(self, count: int) -> bytes:
        self._spend(count)
        data = self._stream.read(count)
        if len(data) != count:
            raise GgufError("the file is cut off within its header")
        return data

    def _skip(self, count: int) -> None:
        self._spend(count)
        self._stream.seek(count, 1)

    def _spend(self, count: int) -> None:
        if count > self._left:
            limit = f"more than {MAX_HEADER_BYTES >> 20} MiB of header" if self._is_capped else ""
            raise GgufError(limit or "the file is cut off within its header")
        self._left -= count


def _check_count(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise GgufError(f"the header claims {count:,} {what}; {limit:,} are allowed")


def _check_kind(found: dict[str, object], architecture: str) -> None:
    """Only whole text models can be served by themselves."""
    if not architecture:
        raise GgufError("the file names no architecture")
    kind = found.get("general.type")
    if architecture == "clip" or (isinstance(kind, str) and kind not in ("", "model")):
        raise GgufError(f"this file is no model by itself but a part of one ({_text(kind)})")
    shards = found.get("split.count")
    if isinstance(shards, int) and shards > 1:
        raise GgufError(f"this is one of {shards} files of a model; merge them into one first")


def _alignment(found: dict[str, object]) -> int:
    value = found.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(value, int) or not 0 < value <= MAX_ALIGNMENT:
        raise GgufError("the header's alignment makes no sense")
    return value


def _text(value: object) -> str:
    """A short text for people: printable, on one line."""
    if not isinstance(value, str):
        return ""
    kept = (c if unicodedata.category(c)[0] not in "CZ" else " " for c in value)
    return " ".join("".join(kept).split())[:SHOWN_CHARS]
