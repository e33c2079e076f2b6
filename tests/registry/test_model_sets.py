"""Which files make one model, and what is wrong with those that don't."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

from inference.registry.gguf.facts import GgufFacts, Kind, Split, Weights
from inference.registry.model_sets import FoundFile, ModelSet, group, role_by_name, shard_names


def file(path: str, kind: Kind = "model", **fields: object) -> FoundFile:
    facts = GgufFacts(kind, 3, 100, architecture="llama", **fields)  # type: ignore[arg-type]
    return FoundFile(PurePosixPath(path), facts)


def shard(path: str, no: int, count: int, *, tensors: int = 2, total: int = 0) -> FoundFile:
    weights = Weights(num_tensors=tensors, num_params=10, layer_bytes=(0,) * no + (5,))
    split = Split(no, count, total)
    return file(path, "shard" if no else "model", split=split, weights=weights)


def three(folder: str = "", **fields: int) -> list[FoundFile]:
    names = shard_names("m-00001-of-00003.gguf", 3)
    return [shard(folder + name, no, 3, **fields) for no, name in enumerate(names)]


def only(files: list[FoundFile]) -> ModelSet:
    (one,) = group(files)
    return one


def names(files: tuple[FoundFile, ...]) -> list[str]:
    return [file.path.name for file in files]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("mmproj-F16.gguf", "mmproj"),
        ("gemma-mmproj.gguf", "mmproj"),
        ("mtp-q8.gguf", "draft"),
        ("dspark-x.gguf", "draft"),
        ("dflash-x.gguf", "draft"),
        ("x-00001-of-00002.gguf", "model"),
        ("x-00002-of-00002.gguf", "shard"),
        ("x.gguf", "model"),
    ],
)
def test_roles_by_name(name: str, role: str) -> None:
    assert role_by_name(name) == role


def test_files_beside_each_other_are_models_of_their_own() -> None:
    found = group([file("a.gguf"), file("b.gguf"), file("mmproj-a.gguf", "mmproj")])
    assert [(one.label, one.role) for one in found] == [
        ("a", "model"),
        ("b", "model"),
        ("mmproj-a", "mmproj"),
    ]
    assert all(one.beside == () for one in found)


def test_a_folder_with_one_model_is_that_model() -> None:
    found = only(
        [file("gemma/x.gguf"), file("gemma/mmproj.gguf", "mmproj"), file("gemma/mtp-x.gguf")]
    )
    assert (found.label, found.main.name) == ("gemma", "x.gguf")
    assert [(part.path.name, part.role) for part in found.beside] == [
        ("mmproj.gguf", "mmproj"),
        ("mtp-x.gguf", "draft"),
    ]


def test_several_models_of_a_folder_share_what_lies_beside() -> None:
    found = group([file("g/q4.gguf"), file("g/q8.gguf"), file("g/mmproj.gguf", "mmproj")])
    assert [one.label for one in found] == ["g/q4", "g/q8"]
    assert [names(one.beside) for one in found] == [["mmproj.gguf"]] * 2


def test_the_header_knows_better_than_the_name() -> None:
    found = group(
        [file("g/x.gguf"), file("g/encoder.gguf", "mmproj"), file("g/lora.gguf", "adapter")]
    )
    assert [(one.label, one.role) for one in found] == [("g", "model"), ("g/lora", "adapter")]
    assert names(found[0].beside) == ["encoder.gguf"]


@pytest.mark.parametrize("folder", ["", "big/"])
def test_shards_are_one_model(folder: str) -> None:
    found = only(three(folder, total=6))
    assert found.label == ("big" if folder else "m")
    assert (found.main.name, found.problem, found.is_whole) == ("m-00001-of-00003.gguf", "", True)
    assert names(found.shards) == ["m-00002-of-00003.gguf", "m-00003-of-00003.gguf"]
    assert found.facts is not None
    assert (found.facts.size, found.facts.weights.num_params) == (300, 30)
    assert found.facts.weights.layer_bytes == (5, 5, 5)


def broken(change: str) -> list[FoundFile]:
    first, second, third = three(total=6)
    if change == "missing":
        return [first, third]
    if change == "two missing":
        return [first]
    if change == "no first":
        return [second, third]
    if change == "damaged":
        return [first, FoundFile(second.path, None, "the file is cut off: 9 bytes expected"), third]
    if change == "number":
        return [first, shard(str(second.path), 2, 3), third]
    if change == "architecture":
        other = GgufFacts("shard", 3, 1, architecture="qwen3", split=Split(1, 3))
        return [first, FoundFile(second.path, other), third]
    if change == "tensors":
        return [first, second, shard(str(third.path), 2, 3, tensors=1)]
    return [shard("renamed.gguf", 0, 3)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("missing", "m-00002-of-00003.gguf is missing"),
        ("two missing", "m-00002-of-00003.gguf is missing (and 1 more)"),
        ("no first", "m-00001-of-00003.gguf is missing"),
        ("damaged", "m-00002-of-00003.gguf: the file is cut off: 9 bytes expected"),
        ("number", "m-00002-of-00003.gguf says it is part 3 of 3"),
        ("architecture", "m-00002-of-00003.gguf is of another model (qwen3)"),
        ("tensors", "the parts have 5 tensors, not 6"),
        ("name", "its name doesn't end in -00001-of-00003.gguf"),
    ],
)
def test_what_is_wrong_with_shards(change: str, reason: str) -> None:
    found = only(broken(change))
    assert reason in found.problem
    assert not found.is_whole
    assert found.main.name in ("m-00001-of-00003.gguf", "renamed.gguf")


def test_a_damaged_file_is_listed_with_its_reason() -> None:
    found = only([FoundFile(PurePosixPath("x.gguf"), None, "this is not a GGUF file")])
    assert (found.problem, found.is_whole) == ("this is not a GGUF file", True)


def test_folders_in_folders(tmp_path: Path) -> None:
    found = group([file("user/repo/x.gguf"), file("user/other/x.gguf")])
    assert [one.label for one in found] == ["user/other", "user/repo"]
