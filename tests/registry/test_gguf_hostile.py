"""Hostile headers: each is refused with the place and the reason, in bounded time and memory."""

from __future__ import annotations

import contextlib
import os
import struct
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.registry.gguf import cursor, pairs, process, tensors
from inference.registry.gguf.errors import GgufError
from inference.registry.gguf.header import GgufHeader, read_stream
from inference.registry.gguf.process import read_header
from tests.registry.gguf_files import (
    ARRAY,
    STRING,
    U32,
    Value,
    entry,
    header,
    model,
    pair,
    tensor,
    text,
    values,
    whole,
)

HUGE = 2**63
ALL_ONES = 2**64 - 1  # what a negative length looks like
ARCH = pair("general.architecture", STRING, text("llama"))
ROW = tensor("w", (8,), 0, 0)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def many(count: int) -> list[bytes]:
    return [pair(f"k{number}", U32, u32(1)) for number in range(count)]


def layered(**more: Value) -> bytes:
    return whole(values() | {f"llama.{key}".replace("__", "."): v for key, v in more.items()})


# Name → bytes, and what of the message names the place.
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a GGUF file"),
    "text": (b"<!doctype html><title>Sign in</title>" * 9, "not a GGUF file"),
    "only a magic": (b"GGUF", "not a GGUF file"),
    "big endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"),
    "version 1": (header([ARCH], version=1), "version 1 "),
    "version 4": (header([ARCH], version=4), "version 4 "),
    "no architecture": (header([pair("general.name", STRING, text("x"))]), "general.architecture"),
    "a number as architecture": (
        header([pair("general.architecture", U32, u32(7))]),
        "general.architecture",
    ),
    "pairs without end": (header([ARCH], num_pairs=HUGE), "entries"),
    "a negative count of pairs": (header([ARCH], num_pairs=ALL_ONES), "entries"),
    "many pairs": (header([ARCH], num_pairs=pairs.MAX_PAIRS), "cut off"),
    "tensors without end": (header([ARCH], num_tensors=HUGE), "tensors"),
    "a negative count of tensors": (header([ARCH], num_tensors=ALL_ONES), "tensors"),
    "many tensors": (header([ARCH], num_tensors=tensors.MAX_TENSORS), "cut off"),
    "a long key": (header([struct.pack("<Q", HUGE)], num_pairs=1), "a key \\(byte 24\\)"),
    "a negative length of a key": (header([struct.pack("<Q", ALL_ONES)], num_pairs=1), "a key"),
    "an empty key": (header([pair("", U32, u32(1))]), "empty key \\(byte 24\\)"),
    "a key that is no text": (header([pair(b"\xff\xfe", U32, u32(1))]), "UTF-8 \\(byte 24\\)"),
    "a key twice": (header([ARCH, ARCH]), "'general.architecture' twice"),
    "a long text": (
        header([pair("general.name", STRING, struct.pack("<Q", HUGE) + b"x")]),
        "'general.name'",
    ),
    "a negative length of a text": (
        header([pair("general.name", STRING, struct.pack("<Q", ALL_ONES) + b"x")]),
        "'general.name'",
    ),
    "a long array": (header([pair("a", ARRAY, struct.pack("<IQ", U32, HUGE))]), "'a'"),
    "many texts": (
        header([pair("a", ARRAY, struct.pack("<IQ", STRING, pairs.MAX_ITEMS + 1))]),
        "'a' has more items",
    ),
    "empty texts": (
        header([pair("a", ARRAY, struct.pack("<IQ", STRING, 4_000_000))]),
        "'a' has more items",
    ),
    "a text in an array that goes on": (
        header([pair("a", ARRAY, struct.pack("<IQQ", STRING, 1, ALL_ONES))]),
        "'a'",
    ),
    "deep arrays": (
        header([pair("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 1000)]),
        "'a' is an array of arrays",
    ),
    "unknown value": (header([pair("a", 99, b"")]), "'a' is of the unknown kind 99"),
    "unknown item": (header([pair("a", ARRAY, struct.pack("<IQ", 99, 1))]), "unknown kind 99"),
    "a huge template": (
        header([ARCH, entry("tokenizer.chat_template", "x" * (pairs.MAX_TEMPLATE_BYTES + 1))]),
        "tokenizer.chat_template",
    ),
    "many templates": (
        header([ARCH, *(entry(f"tokenizer.chat_template.t{n}", "x") for n in range(17))]),
        "chat templates",
    ),
    "a template that is no text": (
        header([ARCH, entry("tokenizer.chat_template", b"\xff\xff")]),
        "tokenizer.chat_template is no text",
    ),
    "a template with a NUL": (
        header([ARCH, entry("tokenizer.chat_template", "a\0b")]),
        "tokenizer.chat_template has a NUL",
    ),
    "many dimensions": (header([ARCH], [text("w") + u32(2**32 - 1)]), "dimensions of tensor 'w'"),
    "five dimensions": (header([ARCH], [tensor("w", (1,) * 5, 0, 0)]), "dimensions of tensor 'w'"),
    "a huge tensor": (
        header([ARCH], [tensor("w", (HUGE, HUGE, HUGE, HUGE), 0, 0)]),
        "'w' has an impossible shape",
    ),
    "a tensor that overflows": (
        header([ARCH], [tensor("w", (2**32, 2**32), 0, 0)]),
        "'w' has an impossible shape",
    ),
    "a large tensor": (header([ARCH], [tensor("w", (2**40,), 0, 0)]), "cut off"),
    "a far tensor": (header([ARCH], [tensor("w", (1,), 0, 2**62)]), "'w' leaves a gap"),
    "a tensor of an unknown type": (header([ARCH], [tensor("w", (1,), 77, 0)]), "unknown type 77"),
    "a tensor of a removed type": (header([ARCH], [tensor("w", (1,), 4, 0)]), "unknown type 4"),
    "half a block": (header([ARCH], [tensor("w", (33,), 2, 0)]), "'w' has rows of 33"),
    "overlapping tensors": (
        header([ARCH], [ROW, tensor("v", (8,), 0, 0)]) + bytes(99),
        "'v' overlaps",
    ),
    "tensors with a gap": (
        header([ARCH], [ROW, tensor("v", (8,), 0, 64)]) + bytes(999),
        "'v' leaves a gap",
    ),
    "a tensor out of line": (
        header([ARCH], [ROW, tensor("v", (8,), 0, 33)]) + bytes(999),
        "'v' isn't aligned to 32",
    ),
    "a tensor twice": (header([ARCH], [ROW, ROW]) + bytes(99), "'w' twice"),
    "a tensor whose name is no text": (
        header([ARCH], [tensor(b"\xc3\x28", (8,), 0, 0)]),
        "no text in UTF-8",
    ),
    "a tensor with a long name": (
        header([ARCH], [tensor("w" * 64, (8,), 0, 0)]),
        "bytes in a tensor's name",
    ),
    "alignment 0": (header([ARCH, entry("general.alignment", 0)]), "general.alignment"),
    "alignment 48": (header([ARCH, entry("general.alignment", 48)]), "general.alignment"),
    "a huge alignment": (header([ARCH, entry("general.alignment", 2**31)]), "general.alignment"),
    "a text as alignment": (header([ARCH, entry("general.alignment", "32")]), "general.alignment"),
    "many layers": (layered(block_count=2**30), "llama.block_count"),
    "fewer heads than layers": (
        layered(block_count=9, attention__head_count_kv=[1, 2]),
        "llama.attention.head_count_kv has 2 items for 9 layers",
    ),
    "a part of too few": (whole(values() | {"split.no": 3, "split.count": 3}), "split.no 3"),
    "a thousand parts": (whole(values() | {"split.count": 65_535}), "split.count 65,535"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_refused_cheaply(tmp_path: Path, name: str) -> None:
    data, place = HOSTILE[name]
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(GgufError, match=place) as caught:
            read_here(path)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 5.0
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 500


def test_the_child_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    for name in ("a key twice", "overlapping tensors", "many layers", "empty"):
        path.write_bytes(HOSTILE[name][0])
        with pytest.raises(GgufError) as here:
            read_here(path)
        with pytest.raises(GgufError) as there:
            read_header(path)
        assert there.value.message == here.value.message


def test_many_numbers_take_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(header([ARCH, *many(pairs.MAX_PAIRS - 1)]))
    tracemalloc.start()
    try:
        assert read_here(path).facts.architecture == "llama"
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()


def test_a_header_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "MAX_HEADER_BYTES", 1000)
    path = tmp_path / "model.gguf"
    path.write_bytes(header([ARCH, entry("a", "x" * 2000)]) + bytes(4000))
    with pytest.raises(GgufError, match="'a' claims 2,000 bytes"):
        read_here(path)
    path.write_bytes(header([ARCH, *many(100)]) + bytes(4000))
    with pytest.raises(GgufError, match="longer than"):
        read_here(path)


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    data = model(num_values=16)
    path = tmp_path / "model.gguf"
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(GgufError):
            read_here(path)
    path.write_bytes(data)
    assert read_here(path).facts.weights.num_params == 16


def test_texts_longer_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "WINDOW_BYTES", 64)
    path = tmp_path / "model.gguf"
    words = ["x" * length for length in (0, 1, 7, 55, 56, 57, 63, 64, 65, 500, 0, 3)]
    path.write_bytes(whole(values() | {"tokenizer.ggml.tokens": words}))
    assert read_here(path).facts.tokens.num == len(words)


def test_a_child_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time; time.sleep(600)")
    monkeypatch.setattr(process, "_CHILD", sleeper)
    with opened(model(), tmp_path) as descriptor, pytest.raises(GgufError, match="longer than"):
        process.read_descriptor(descriptor, timeout_s=0.2)


def test_a_child_that_dies_says_that_it_was_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "killed.py"
    killed.write_text("import os; os.write(1, b'{\"facts\"'); os.kill(os.getpid(), 9)")
    monkeypatch.setattr(process, "_CHILD", killed)
    with opened(model(), tmp_path) as descriptor, pytest.raises(GgufError, match="too much"):
        process.read_descriptor(descriptor)


def test_the_child_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `_limit` sets holds: no memory, no file, no socket beyond it."""
    probe = tmp_path / "probe.py"
    source = process._CHILD.read_text().replace(
        "header = read_stream(0, os.fstat(0).st_size)", "probe()"
    )
    probe.write_text(
        source.replace(
            "def _limit()",
            "def probe() -> None:\n"
            "    found = []\n"
            "    for act in (lambda: bytearray(2**30), lambda: open('/etc/passwd'),\n"
            "                lambda: __import__('socket').socket()):\n"
            "        try:\n"
            "            act()\n"
            "        except (OSError, MemoryError, ImportError) as error:\n"
            "            found.append(type(error).__name__)\n"
            "        else:\n"
            "            found.append('done')\n"
            "    from llamaweb.lib.errors import InvalidError\n"
            "    raise InvalidError(' '.join(found))\n\n\ndef _limit()",
        ).replace("parents[3]", f"parents[0] if False else Path({str(Path.cwd())!r})")
    )
    monkeypatch.setattr(process, "_CHILD", probe)
    with opened(model(), tmp_path) as descriptor, pytest.raises(GgufError) as caught:
        process.read_descriptor(descriptor)
    memory, file, socket = caught.value.message.split()
    assert memory == "MemoryError"
    assert file == "OSError"
    assert socket != "done"


@given(place=st.integers(0, 700), value=st.binary(min_size=1, max_size=9))
def test_no_damage_makes_another_error(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: bytes
) -> None:
    data = bytearray(model(num_values=16))
    data[place : place + len(value)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(data)
    with contextlib.suppress(GgufError):
        read_here(path)


@given(bits=st.lists(st.integers(0, 8 * 700), min_size=1, max_size=4))
def test_no_flipped_bits_make_another_error(
    tmp_path_factory: pytest.TempPathFactory, bits: list[int]
) -> None:
    data = bytearray(model(num_values=16))
    for bit in bits:
        data[bit // 8 % len(data)] ^= 1 << bit % 8
    path = tmp_path_factory.getbasetemp() / "flipped.gguf"
    path.write_bytes(data)
    with contextlib.suppress(GgufError):
        read_here(path)


def read_here(path: Path) -> GgufHeader:
    """In this process, where memory can be measured; the child calls the same."""
    with path.open("rb") as stream:
        return read_stream(stream.fileno(), path.stat().st_size)


@contextlib.contextmanager
def opened(data: bytes, folder: Path) -> Iterator[int]:
    path = folder / "model.gguf"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
