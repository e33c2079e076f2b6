"""Which files of a folder make one model: shards, and what lies beside them. Pure.

A folder with one model in it is that model; several in one folder, and those that lie in the models
directory itself, are each one of their own. What lies beside a model (mmproj*, mtp-*, dspark-*,
dflash-*) belongs to every model of its folder, but to none in the models directory itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

from inference.registry.gguf.facts import GgufFacts, Weights

Role: TypeAlias = Literal["model", "shard", "mmproj", "draft", "adapter", "other"]
SHARD_RE: Final = re.compile(r"(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf")
DRAFT_PREFIXES: Final = ("mtp-", "dspark-", "dflash-")
SUFFIX: Final = ".gguf"
BESIDE: Final = ("mmproj", "draft")
_KIND_ROLES: Final[dict[str, Role]] = {
    "model": "model", "shard": "shard", "mmproj": "mmproj", "draft": "draft",
    "adapter": "adapter", "vocabulary": "other", "other": "other",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file of the models directory, by its path in it. `facts` is None where `error` says why."""

    path: PurePosixPath
    facts: GgufFacts | None
    error: str = ""

    @property
    def role(self) -> Role:
        """What it is, by its header or, where nobody can read that, by its name."""
        by_name = role_by_name(self.path.name)
        if self.facts is None or by_name == "draft":
            return by_name
        return _KIND_ROLES[self.facts.kind]


@dataclass(frozen=True, slots=True)
class ModelSet:
    """A model: the file that is loaded (the first shard), the other shards, and what lies beside.

    `facts`: of all shards together; None if the main file can't be read. `problem`: why it can't
    be loaded, "" if it can; `is_whole`: no file of it is missing or cut off.
    """

    label: str
    main: PurePosixPath
    shards: tuple[FoundFile, ...] = ()
    beside: tuple[FoundFile, ...] = ()
    role: Role = "model"
    facts: GgufFacts | None = None
    problem: str = ""
    is_whole: bool = True


def role_by_name(name: str) -> Role:
    """What a file's name says it is."""
    if "mmproj" in name.lower():
        return "mmproj"
    if name.startswith(DRAFT_PREFIXES):
        return "draft"
    match = SHARD_RE.fullmatch(name)
    return "shard" if match is not None and int(match["no"]) != 1 else "model"


def shard_names(first: str, count: int) -> tuple[str, ...]:
    """Names of all shards of a model, from that of the first; () if it isn't one's name."""
    match = SHARD_RE.fullmatch(first)
    if match is None or int(match["no"]) != 1 or int(match["count"]) != count:
        return ()
    return tuple(f"{match['stem']}-{no + 1:05d}-of-{count:05d}{SUFFIX}" for no in range(count))


def group(files: Iterable[FoundFile]) -> list[ModelSet]:
    """All sets of a models directory, by label."""
    folders: defaultdict[PurePosixPath, list[FoundFile]] = defaultdict(list)
    for file in files:
        folders[file.path.parent].append(file)
    sets = [one for folder in sorted(folders) for one in _folder_sets(folder, folders[folder])]
    return sorted(sets, key=lambda one: one.label)


def assemble(main: FoundFile, others: Mapping[str, FoundFile], *, label: str) -> ModelSet:
    """The model that begins with `main`. `others`: the files of its folder by name."""
    alone = ModelSet(label, main.path, role=main.role, facts=main.facts)
    if main.facts is None:
        return replace(alone, problem=main.error, is_whole="cut off" not in main.error)
    split = main.facts.split
    if split.count == 1:
        return alone
    names = shard_names(main.path.name, split.count)
    if not names:
        return replace(
            alone,
            is_whole=False,
            problem=f"it is part {split.no + 1} of {split.count}, but its name doesn't end in "
            f"-{split.no + 1:05d}-of-{split.count:05d}{SUFFIX}: the others can't be found",
        )
    shards = [others[name] for name in names[1:] if name in others]
    problem = _shards_problem(main.facts, names, others)
    parts = [shard.facts for shard in shards if shard.facts is not None]
    return replace(
        alone,
        shards=tuple(shards),
        facts=together(main.facts, parts),
        problem=problem,
        is_whole=not problem,
    )


def _folder_sets(folder: PurePosixPath, files: list[FoundFile]) -> list[ModelSet]:
    by_name = {file.path.name: file for file in files}
    beside = tuple(
        file for file in sorted(files, key=lambda f: f.path) if file.role in BESIDE and folder.name
    )
    mains = [file for file in files if file.role in ("model", "other", "adapter")]
    whole = [file for file in mains if file.role == "model"]
    found = []
    for file in mains:
        stem = _stem(file.path.name)
        is_only = folder.name and len(whole) == 1 and file.role == "model"
        label = str(folder) if is_only else str(folder / stem)
        one = assemble(file, by_name, label=label)
        found.append(replace(one, beside=beside) if file.role == "model" else one)
    taken = {shard.path for one in found for shard in one.shards}
    found += _headless(folder, [f for f in files if f.role == "shard" and f.path not in taken])
    if not whole or not folder.name:
        found += [
            ModelSet(
                str(folder / _stem(file.path.name)),
                file.path,
                role=file.role,
                facts=file.facts,
                problem=file.error,
            )
            for file in files
            if file.role in BESIDE
        ]
    return found


def _headless(folder: PurePosixPath, shards: list[FoundFile]) -> list[ModelSet]:
    """Shards without their first one: one model each group, that can't be loaded."""
    groups: defaultdict[str, list[FoundFile]] = defaultdict(list)
    for shard in shards:
        match = SHARD_RE.fullmatch(shard.path.name)
        first = f"{match['stem']}-00001-of-{match['count']}{SUFFIX}" if match else shard.path.name
        groups[first].append(shard)
    return [
        ModelSet(
            str(folder / _stem(first)),
            folder / first,
            shards=tuple(sorted(found, key=lambda shard: shard.path)),
            problem=f"{first} is missing"
            if SHARD_RE.fullmatch(first)
            else "it is a part of a model, but its name doesn't say of which",
            is_whole=False,
        )
        for first, found in sorted(groups.items())
    ]


def _shards_problem(
    facts: GgufFacts, names: tuple[str, ...], others: Mapping[str, FoundFile]
) -> str:
    """What is wrong with a model's shards, "" if they are all there and belong together."""
    missing = [name for name in names[1:] if name not in others]
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return f"{missing[0]} is missing{more}"
    num_tensors = facts.weights.num_tensors
    for no, name in enumerate(names[1:], start=1):
        part = others[name].facts
        if part is None:
            return f"{name}: {others[name].error}"
        if (part.split.no, part.split.count) != (no, facts.split.count):
            return f"{name} says it is part {part.split.no + 1} of {part.split.count}"
        if part.architecture not in ("", facts.architecture):
            return f"{name} is of another model ({part.architecture})"
        num_tensors += part.weights.num_tensors
    if facts.split.num_tensors and num_tensors != facts.split.num_tensors:
        return f"the parts have {num_tensors:,} tensors, not {facts.split.num_tensors:,}"
    return ""


def together(first: GgufFacts, parts: list[GgufFacts]) -> GgufFacts:
    """Facts of a model of several files: the first shard's, with the sums of all."""
    every = [first.weights, *(part.weights for part in parts)]
    kinds = [weights.main_kind for weights in every if weights.main_kind]
    num_layers = max(len(weights.layer_bytes) for weights in every)
    layer_bytes = [0] * num_layers
    for weights in every:
        for layer, num_bytes in enumerate(weights.layer_bytes):
            layer_bytes[layer] += num_bytes
    summed = Weights(
        num_tensors=sum(weights.num_tensors for weights in every),
        num_params=sum(weights.num_params for weights in every),
        main_kind=max(kinds, key=kinds.count, default=""),
        layer_bytes=tuple(layer_bytes),
        input_bytes=sum(weights.input_bytes for weights in every),
        output_bytes=sum(weights.output_bytes for weights in every),
        other_bytes=sum(weights.other_bytes for weights in every),
    )
    return replace(
        first,
        size=first.size + sum(part.size for part in parts),
        quantization=first.quantization or summed.main_kind,
        weights=summed,
    )


def _stem(name: str) -> str:
    match = SHARD_RE.fullmatch(name)
    return match["stem"] if match else name.removesuffix(SUFFIX)
