"""The keys and values of a header. Numbers and short texts are kept, long lists only counted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from inference.registry.gguf.cursor import SCALARS, Cursor
from inference.registry.gguf.errors import GgufError, check_count, shown

MAX_PAIRS: Final = 65_536
MAX_KEY_LEN: Final = 1024
MAX_ITEMS: Final = 16_777_216  # texts in all arrays together
MAX_KEPT_ITEMS: Final = 1024  # numbers of an array, such as one a layer
MAX_KEPT_BYTES: Final = 4 * 1024 * 1024  # of short texts and arrays, all together
SHORT_TEXT_BYTES: Final = 512
MAX_TEMPLATES: Final = 16
MAX_TEMPLATE_BYTES: Final = 1024 * 1024  # more than an engine would take
TEMPLATE_KEY: Final = "tokenizer.chat_template"

_TEXT: Final = 8
_ARRAY: Final = 9

Number: TypeAlias = int | float | bool


@dataclass(frozen=True, slots=True)
class Items:
    """An array: how many items it has, and the numbers themselves if they are few."""

    count: int
    numbers: tuple[Number, ...] = ()


Value: TypeAlias = Number | str | Items


class Pairs:
    """What was found, asked for by key; a value of another kind than asked for counts as absent."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self.templates: dict[str, str] = {}  # "" is the main one

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def add(self, key: str, value: Value) -> None:
        """Keep a value."""
        self._values[key] = value

    def whole(self, key: str, default: int = 0) -> int:
        """A number that isn't negative and fits 31 bits, or the first of some."""
        value = self._values.get(key)
        if isinstance(value, Items) and value.numbers:
            value = value.numbers[0]
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return int(value) if is_whole and 0 <= value < 2**31 else default  # type: ignore[arg-type, operator]

    def each(self, key: str, count: int, default: int = 0) -> tuple[int, ...]:
        """One number for each of `count` layers, written once for all or one by one.

        Raises:
            GgufError: fewer than `count` are there.
        """
        value = self._values.get(key)
        if not isinstance(value, Items):
            return (self.whole(key, default),) * count
        if len(value.numbers) < count:
            raise GgufError(f"{shown(key)} has {value.count:,} items for {count:,} layers")
        return tuple(int(n) if 0 <= n < 2**31 else default for n in value.numbers[:count])

    def is_list(self, key: str) -> bool:
        """Whether there is an array of numbers."""
        value = self._values.get(key)
        return isinstance(value, Items) and bool(value.numbers)

    def count(self, key: str) -> int:
        """Items of an array."""
        value = self._values.get(key)
        return value.count if isinstance(value, Items) else 0

    def number(self, key: str, default: float = 0.0) -> float:
        """Any finite number."""
        value = self._values.get(key)
        is_number = isinstance(value, int | float) and math.isfinite(value)
        return float(value) if is_number else default  # type: ignore[arg-type]

    def flag(self, key: str, default: bool = False) -> bool:
        """Yes or no."""
        value = self._values.get(key)
        return value if isinstance(value, bool) else default

    def text(self, key: str) -> str:
        """A short text, for people."""
        value = self._values.get(key)
        return shown(value) if isinstance(value, str) else ""


class PairsReader:
    """Reads all pairs at a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._left_items = MAX_ITEMS
        self._left_bytes = MAX_KEPT_BYTES
        self._pairs = Pairs()

    def read(self, count: int) -> Pairs:
        """The next `count` pairs.

        Raises:
            GgufError: a key is written twice or is no text, or a value can't be.
        """
        check_count("entries", count, MAX_PAIRS)
        seen: set[bytes] = set()
        for _ in range(count):
            self._cursor.subject = "a key"
            place = self._cursor.offset
            raw = self._cursor.text(MAX_KEY_LEN, "a key")
            if raw in seen:
                raise GgufError(f"the header has the key {shown(raw)!r} twice (byte {place:,})")
            seen.add(raw)
            self._read_value(_key(raw, place))
        return self._pairs

    def _read_value(self, key: str) -> None:
        cursor = self._cursor
        cursor.subject = f"the value of {shown(key)!r}"
        kind = cursor.u32()
        if kind == _TEXT:
            self._read_text(key)
        elif kind == _ARRAY:
            self._read_array(key)
        elif kind in SCALARS:
            self._keep(key, cursor.scalar(SCALARS[kind]), 32)
        else:
            raise GgufError(f"the value of {shown(key)!r} is of the unknown kind {kind}")

    def _read_text(self, key: str) -> None:
        if key == TEMPLATE_KEY or key.startswith(TEMPLATE_KEY + "."):
            self._read_template(key)
            return
        length = self._cursor.u64()
        if length > self._cursor.left:
            raise GgufError(f"{self._cursor.subject} claims {length:,} bytes; the file is cut off")
        start = self._cursor.take(min(length, SHORT_TEXT_BYTES))
        self._cursor.skip(length - len(start))
        self._keep(key, start.decode("utf-8", "replace"), len(start))

    def _read_template(self, key: str) -> None:
        raw = self._cursor.text(MAX_TEMPLATE_BYTES, key)
        check_count("chat templates", len(self._pairs.templates) + 1, MAX_TEMPLATES)
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            raise GgufError(f"{shown(key)} is no text in UTF-8") from error
        if "\0" in text:
            raise GgufError(f"{shown(key)} has a NUL character in it")
        self._pairs.templates[shown(key.removeprefix(TEMPLATE_KEY).removeprefix("."), 64)] = text

    def _read_array(self, key: str) -> None:
        cursor = self._cursor
        kind, count = cursor.u32(), cursor.u64()
        if kind == _TEXT:
            self._left_items -= count
            if self._left_items < 0 or count * 8 > cursor.left:
                raise GgufError(f"{shown(key)!r} has more items than the file can hold: {count:,}")
            cursor.skip_texts(count)
            self._keep(key, Items(count), 64)
        elif kind in SCALARS:
            self._read_numbers(key, kind, count)
        elif kind == _ARRAY:
            raise GgufError(f"{shown(key)!r} is an array of arrays, which no engine can read")
        else:
            raise GgufError(f"{shown(key)!r} is an array of the unknown kind {kind}")

    def _read_numbers(self, key: str, kind: int, count: int) -> None:
        form = SCALARS[kind]
        if count > MAX_KEPT_ITEMS:
            self._cursor.skip(count * form.size)
            self._keep(key, Items(count), 64)
            return
        raw = self._cursor.take(count * form.size)
        numbers = tuple(number for (number,) in form.iter_unpack(raw))
        self._keep(key, Items(count, numbers), 64 + 32 * count)

    def _keep(self, key: str, value: Value, num_bytes: int) -> None:
        """What is found when there is no room any more is nothing that is asked for."""
        self._left_bytes -= num_bytes + len(key)
        if self._left_bytes >= 0:
            self._pairs.add(key, value)


def _key(raw: bytes, place: int) -> str:
    if not raw:
        raise GgufError(f"the header has an empty key (byte {place:,})")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise GgufError(f"the key {shown(raw)!r} is no text in UTF-8 (byte {place:,})") from error
