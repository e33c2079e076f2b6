"""A step runs again exactly when its inputs changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from llamaweb.run.stamps import content_hash, read_stamp, write_stamp


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "a.ts").write_text("a")
    (tmp_path / "src" / "deep" / "b.ts").write_text("b")
    (tmp_path / "lock").write_text("1")
    return tmp_path


def hash_of(tree: Path) -> str:
    return content_hash(tree, [tree / "src", tree / "lock", tree / "public"])


def test_the_same_content_gives_the_same_hash(tree: Path) -> None:
    before = hash_of(tree)
    (tree / "lock").write_text("1")
    (tree / "elsewhere").write_text("no input")
    assert hash_of(tree) == before


def test_every_change_of_an_input_changes_it(tree: Path) -> None:
    seen = {hash_of(tree)}
    (tree / "src" / "deep" / "b.ts").write_text("B")
    seen.add(hash_of(tree))
    (tree / "src" / "a.ts").rename(tree / "src" / "c.ts")
    seen.add(hash_of(tree))
    (tree / "public").mkdir()
    (tree / "public" / "icon").write_text("")
    seen.add(hash_of(tree))
    (tree / "lock").unlink()
    seen.add(hash_of(tree))
    assert len(seen) == 5


def test_text_that_moves_between_files_changes_it(tree: Path) -> None:
    before = hash_of(tree)
    (tree / "src" / "a.ts").write_text("b")
    (tree / "src" / "deep" / "b.ts").write_text("a")
    assert hash_of(tree) != before


def test_a_stamp_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "not" / "yet" / "stamp.json"
    assert read_stamp(path) == {}
    write_stamp(path, {"lock": "1", "cpu": "2"})
    assert read_stamp(path) == {"lock": "1", "cpu": "2"}
    assert [file.name for file in path.parent.iterdir()] == ["stamp.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00\xff"])
def test_a_damaged_stamp_counts_as_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stamp.json"
    path.write_text(text, encoding="latin-1")
    assert read_stamp(path) == {}
