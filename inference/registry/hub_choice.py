"""Which of a repository's files make a model: quantization, shards, encoder. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from inference.registry.model_sets import SHARD_RE, role_by_name, shard_names
from llamaweb.lib.errors import InvalidError

DEFAULT_QUANT: Final = "Q4_K_M"
DEFAULT_NAMES: Final = ("", "latest")
QUANT_RE: Final = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q\d[A-Z0-9_]*|TQ\d_\d|MXFP\d[A-Z0-9_]*|BF16|F16|F32))(?=$|[-._/])",
    re.IGNORECASE,
)
MMPROJ_ORDER: Final = ("F16", "BF16", "Q8_0")
MAX_SHARDS: Final = 256
MAX_NAMED = 20  # quantizations in a message


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository: its path there, bytes, SHA-256."""

    path: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """Without the folders."""
        return PurePosixPath(self.path).name

    @property
    def folder(self) -> str:
        """What stands before its name, "" at the top."""
        return self.path[: -len(self.name)]

    @property
    def quant(self) -> str:
        """Its quantization as its name, or else its folder's, says it; "" if none does."""
        found = QUANT_RE.findall(self.path[: -len(".gguf")])
        return str(found[-1]).upper() if found else ""

    @property
    def stem(self) -> str:
        """Its name without quantization and shard: the same for all files of one model."""
        shard = SHARD_RE.fullmatch(self.name)
        name = shard["stem"] if shard is not None else self.name[: -len(".gguf")]
        return QUANT_RE.sub("", name).lower()


def mains_of(files: Sequence[HubFile]) -> list[HubFile]:
    """The first file of every model, those with short paths first."""
    return sorted((f for f in files if _is_main(f)), key=lambda f: (len(f.path), f.path))


def choose(files: Sequence[HubFile], quant: str, *, repo: str) -> HubFile:
    """The first file of the model that is wanted: of that quantization, or of the usual one, or,
    where nobody said which, simply the first.

    Raises:
        InvalidError: there is none.
    """
    mains = mains_of(files)
    if not mains:
        raise InvalidError(f"{repo} has no GGUF model", param="source")
    is_default = quant.lower() in DEFAULT_NAMES
    wanted = DEFAULT_QUANT if is_default else quant.upper()
    same = [f for f in mains if f.quant == wanted] or [f for f in mains if _says(f, wanted)]
    if same:
        return same[0]
    if is_default:
        return min(mains, key=lambda f: f.path)
    names = sorted({f.quant or f.name for f in mains})
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    raise InvalidError(
        f"{repo} has no {quant}; it has {', '.join(names[:MAX_NAMED])}{more}", param="source"
    )


def shards_of(main: HubFile, by_path: Mapping[str, HubFile]) -> tuple[HubFile, ...]:
    """`main` and the other files of its model, in their order; `by_path`: all there are.

    Raises:
        InvalidError: one is missing, or there are too many.
    """
    match = SHARD_RE.fullmatch(main.name)
    if match is None:
        return (main,)
    count = int(match["count"])
    if not 1 <= count <= MAX_SHARDS:
        raise InvalidError(f"{main.name}: a model can't have {count:,} files", param="source")
    found = []
    for name in shard_names(main.name, count):
        if main.folder + name not in by_path:
            raise InvalidError(f"the repository lacks {name}", param="source")
        found.append(by_path[main.folder + name])
    return tuple(found)


def encoders_of(files: Iterable[HubFile]) -> dict[str, HubFile]:
    """By folder: the encoder in it of the best usual precision."""
    found: dict[str, HubFile] = {}
    for file in files:
        if role_by_name(file.name) == "mmproj":
            found[file.folder] = min(found.get(file.folder, file), file, key=_mmproj_rank)
    return found


def mmproj_of(main: HubFile, encoders: Mapping[str, HubFile]) -> HubFile | None:
    """The encoder beside a model: in its folder or at the top, the better one. `encoders`: see
    `encoders_of`."""
    found = [encoders[folder] for folder in {"", main.folder} if folder in encoders]
    return min(found, key=_mmproj_rank, default=None)


def _mmproj_rank(file: HubFile) -> tuple[int, str]:
    known = file.quant in MMPROJ_ORDER
    return (MMPROJ_ORDER.index(file.quant) if known else len(MMPROJ_ORDER), file.path)


def _is_main(file: HubFile) -> bool:
    return role_by_name(file.name) == "model" and "imatrix" not in file.name.lower()


def _says(file: HubFile, wanted: str) -> bool:
    """Whether `wanted` stands in the path as a word of its own."""
    words = rf"(?:^|[-._/]){re.escape(wanted)}(?=$|[-._/])"
    return re.search(words, file.path[: -len(".gguf")], re.IGNORECASE) is not None
