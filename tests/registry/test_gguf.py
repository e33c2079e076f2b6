"""The header reader: what it finds, and that no file makes it read or build more than it may."""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engine.starter import find_starter_model
from inference.registry import gguf
from inference.registry.gguf import GgufError, read_header
from tests.registry.gguf_files import ARRAY, STRING, U32, header, model, pair, tensor, text

ARCH = pair("general.architecture", STRING, text("llama"))


def write(folder: Path, data: bytes) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(data)
    return path


def test_what_a_file_says(tmp_path: Path) -> None:
    found = read_header(write(tmp_path, model()))
    assert (found.architecture, found.name, found.context_len) == ("llama", "Tiny", 2048)
    assert (found.version, found.num_tensors, found.has_chat_template) == (3, 1, True)
    assert found.size == (tmp_path / "model.gguf").stat().st_size


@pytest.mark.model
def test_the_starter_model() -> None:
    path = find_starter_model()
    assert path is not None
    found = read_header(path)
    assert (found.architecture, found.context_len, found.has_chat_template) == ("llama", 8192, True)


HUGE = 2**63
HOSTILE = {
    "empty": b"",
    "text": b"<!doctype html><title>Sign in</title>" * 9,
    "big endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "version 1": header([ARCH], version=1),
    "no architecture": header([pair("general.name", STRING, text("x"))]),
    "pairs without end": header([ARCH], num_pairs=HUGE),
    "many pairs": header([ARCH], num_pairs=gguf.MAX_PAIRS),
    "tensors without end": header([ARCH], num_tensors=HUGE),
    "many tensors": header([ARCH], num_tensors=gguf.MAX_TENSORS),
    "a long key": header([struct.pack("<Q", HUGE)], num_pairs=1),
    "a long text": header([pair("general.name", STRING, struct.pack("<Q", HUGE) + b"x")]),
    "a long array": header([pair("a", ARRAY, struct.pack("<IQ", U32, HUGE))]),
    "many texts": header([pair("a", ARRAY, struct.pack("<IQ", STRING, gguf.MAX_ITEMS + 1))]),
    "empty texts": header([pair("a", ARRAY, struct.pack("<IQ", STRING, 4_000_000))]),
    "deep arrays": header([pair("a", ARRAY, struct.pack("<IQ", ARRAY, 1) * 1000)]),
    "unknown value": header([pair("a", 99, b"")]),
    "unknown item": header([pair("a", ARRAY, struct.pack("<IQ", 99, 1))]),
    "many dimensions": header([ARCH], [text("w") + struct.pack("<I", 2**32 - 1)]),
    "a huge tensor": header([ARCH], [tensor("w", (HUGE, HUGE, HUGE, HUGE), 0, 0)]),
    "a far tensor": header([ARCH], [tensor("w", (1,), 77, HUGE)]),
    "alignment 0": header([ARCH, pair("general.alignment", U32, struct.pack("<I", 0))]),
    "a text as alignment": header([ARCH, pair("general.alignment", STRING, text("32"))]),
    "an adapter": header([ARCH, pair("general.type", STRING, text("adapter"))]),
    "a projector": header([pair("general.architecture", STRING, text("clip"))]),
    "a shard": header([ARCH, pair("split.count", 2, struct.pack("<H", 3))]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers_are_refused_cheaply(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, HOSTILE[name])
    tracemalloc.start()
    began = time.process_time()
    try:
        with pytest.raises(GgufError):
            read_header(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
    assert time.process_time() - began < 5.0


def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = model(num_values=16)
    for length in range(len(whole)):
        with pytest.raises(GgufError):
            read_header(write(tmp_path, whole[:length]))


def test_names_become_harmless(tmp_path: Path) -> None:
    hostile = "a\0b\u202ec\r\n<script>alert(1)</script>" + "x" * 1000
    found = read_header(write(tmp_path, model(name=hostile)))
    assert found.name.isprintable()
    assert len(found.name) <= gguf.SHOWN_CHARS


@given(place=st.integers(0, 300), value=st.binary(min_size=1, max_size=9))
def test_no_damage_makes_another_error(
    tmp_path_factory: pytest.TempPathFactory, place: int, value: bytes
) -> None:
    data = bytearray(model(num_values=16))
    data[place : place + len(value)] = value
    path = write(tmp_path_factory.getbasetemp(), bytes(data))
    with contextlib.suppress(GgufError):
        read_header(path)
